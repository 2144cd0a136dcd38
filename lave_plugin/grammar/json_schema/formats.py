"""The formats that are enforced, as expressions over the string's value.

Those that SGLang's own check names, and `byte` of OpenAPI. An expression may be narrower than its
standard (no fraction of more than nine digits, no comments in an email), never wider.
"""

_YEAR_WITH_LEAP_DAY = (
    r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
)
_DATE = (
    r"(?:(?:000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d\d\d)-"
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
    rf"|02-(?:0[1-9]|1\d|2[0-8]))|{_YEAR_WITH_LEAP_DAY}-02-29)"
)
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_H16 = r"[0-9A-Fa-f]{1,4}"
_IPV6 = "|".join(
    [
        rf"(?:{_H16}:){{7}}{_H16}",
        rf"(?:{_H16}:){{6}}{_IPV4}",
        *(
            rf"(?:{_H16}(?::{_H16}){{0,{before - 1}}})?::(?:{_H16}(?::{_H16}){{0,{6 - before}}})?"
            for before in range(1, 7)
        ),
    ]
)
_LABEL = r"[0-9A-Za-z](?:[0-9A-Za-z-]{0,22}[0-9A-Za-z])?"
_HOST = rf"{_LABEL}(?:\.{_LABEL}){{0,3}}"
_ATOM = r"[0-9A-Za-z!#$%&'*+/=?^_`{|}~-]"
_HEX = r"[0-9A-Fa-f]"
_PCHAR = rf"(?:[0-9A-Za-z._~!$&'()*+,;=:@-]|%{_HEX}{{2}})"
_NO_COLON = rf"(?:[0-9A-Za-z._~!$&'()*+,;=@-]|%{_HEX}{{2}})"
_AUTHORITY = (
    rf"(?:(?:[0-9A-Za-z._~!$&'()*+,;=:-]|%{_HEX}{{2}})*@)?"
    rf"(?:[0-9A-Za-z._~!$&'()*+,;=-]|%{_HEX}{{2}})+(?::\d{{1,4}})?"
)
_PATH_AND_MORE = rf"(?:/{_PCHAR}*)*(?:\?(?:{_PCHAR}|[/?])*)?(?:#(?:{_PCHAR}|[/?])*)?"
_SEGMENTS = rf"{_PCHAR}+(?:/{_PCHAR}*)*(?:\?(?:{_PCHAR}|[/?])*)?(?:#(?:{_PCHAR}|[/?])*)?"
_URI = rf"[A-Za-z][0-9A-Za-z+.-]*:(?://{_AUTHORITY}{_PATH_AND_MORE}|{_SEGMENTS})"
_RELATIVE = (
    rf"//{_AUTHORITY}{_PATH_AND_MORE}|(?:/(?:{_PCHAR}+(?:/{_PCHAR}*)*)?)?"
    rf"(?:\?(?:{_PCHAR}|[/?])*)?(?:#(?:{_PCHAR}|[/?])*)?"
    rf"|{_NO_COLON}+(?:/{_PCHAR}*)*(?:\?(?:{_PCHAR}|[/?])*)?(?:#(?:{_PCHAR}|[/?])*)?"
)
_POINTER = r"(?:/(?:[^~/]|~[01])*)*"
_VARIABLE = r"[0-9A-Za-z_]+(?:\.[0-9A-Za-z_]+)*(?::[1-9]\d{0,3}|\*)?"

EXPRESSIONS = {
    "date": _DATE,
    "date-time": f"{_DATE}T{_TIME}",
    "time": _TIME,
    "duration": (
        r"P(?:\d+W|(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)"
        r"(?:T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))?"
        r"|T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))"
    ),
    "email": rf"{_ATOM}{{1,32}}(?:\.{_ATOM}{{1,31}})?@{_HOST}",
    "hostname": _HOST,
    "ipv4": _IPV4,
    "ipv6": _IPV6,
    "json-pointer": _POINTER,
    "relative-json-pointer": rf"(?:0|[1-9]\d*)(?:#|{_POINTER})",
    "uri": _URI,
    "uri-reference": f"{_URI}|{_RELATIVE}",
    "uri-template": (
        rf"(?:[0-9A-Za-z._~!$&'()*+,;=:@/?#-]|%{_HEX}{{2}}"
        rf"|\{{[+#./;?&]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
    ),
    "uuid": rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}",
    "byte": r"(?:[0-9A-Za-z+/]{4})*(?:[0-9A-Za-z+/]{2}==|[0-9A-Za-z+/]{3}=)?",
}


def expression(name: str) -> str:
    """The whole string as an expression with both anchors."""
    return f"^(?:{EXPRESSIONS[name]})$"
