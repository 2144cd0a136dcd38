"""What `%import` knows: the terminals of Lark's own libraries, each as one regular expression."""

_DECIMAL = r"(?:[0-9]+\.[0-9]*|\.[0-9]+)"
_EXPONENT = "[eE][+-]?[0-9]+"
_FLOAT = rf"(?:[0-9]+{_EXPONENT}|{_DECIMAL}(?:{_EXPONENT})?)"
_NUMBER = rf"(?:{_FLOAT}|[0-9]+)"

_COMMON = {
    "DIGIT": "[0-9]",
    "HEXDIGIT": "[0-9a-fA-F]",
    "INT": "[0-9]+",
    "SIGNED_INT": "[+-]?[0-9]+",
    "DECIMAL": _DECIMAL,
    "FLOAT": _FLOAT,
    "SIGNED_FLOAT": f"[+-]?{_FLOAT}",
    "NUMBER": _NUMBER,
    "SIGNED_NUMBER": f"[+-]?{_NUMBER}",
    "ESCAPED_STRING": r'"(?:[^"\\\n]|\\[^\n])*"',
    "LCASE_LETTER": "[a-z]",
    "UCASE_LETTER": "[A-Z]",
    "LETTER": "[A-Za-z]",
    "WORD": "[A-Za-z]+",
    "CNAME": "[A-Za-z_][A-Za-z0-9_]*",
    "WS_INLINE": r"[ \t]+",
    "WS": r"[ \t\f\r\n]+",
    "CR": r"\r",
    "LF": r"\n",
    "NEWLINE": r"(?:\r?\n)+",
    "SH_COMMENT": r"#[^\n]*",
    "CPP_COMMENT": r"//[^\n]*",
    "C_COMMENT": r"/\*(?:[^*]|\*+[^*/])*\*+/",
    "SQL_COMMENT": r"--[^\n]*",
}

_DIGITS = "[0-9](?:_?[0-9])*"
_PYTHON_EXPONENT = f"[eE][+-]?{_DIGITS}"
_PYTHON_FLOAT = (
    rf"(?:{_DIGITS}{_PYTHON_EXPONENT}|(?:\.{_DIGITS}|{_DIGITS}\.(?:{_DIGITS})?)"
    f"(?:{_PYTHON_EXPONENT})?)"
)
_PREFIX = "(?:[uUbBfF]?[rR]?|[rR][uUbBfF])"

_PYTHON = {
    "NAME": r"[^\W\d]\w*",
    "COMMENT": r"#[^\n]*",
    "STRING": _PREFIX + r"""(?:"(?!"")(?:[^"\\\n]|\\[^\n])*"|'(?!'')(?:[^'\\\n]|\\[^\n])*')""",
    "LONG_STRING": _PREFIX
    + r'''(?:"""(?:[^"\\]|\\[\s\S]|"(?!""))*"""|'''
    + r"""'''(?:[^'\\]|\\[\s\S]|'(?!''))*''')""",
    "DEC_NUMBER": "[1-9](?:_?[0-9])*|0(?:_?0)*(?![1-9])",
    "HEX_NUMBER": "0[xX](?:_?[0-9a-fA-F])+",
    "OCT_NUMBER": "0[oO](?:_?[0-7])+",
    "BIN_NUMBER": "0[bB](?:_?[01])+",
    "FLOAT_NUMBER": _PYTHON_FLOAT,
    "IMAG_NUMBER": f"(?:{_DIGITS}|{_PYTHON_FLOAT})[jJ]",
}

_UNICODE = {"WS_INLINE": r"[ \t\xa0]+", "WS": r"[ \t\xa0\f\r\n]+"}

LIBRARIES = {"common": _COMMON, "python": _PYTHON, "unicode": _UNICODE}
