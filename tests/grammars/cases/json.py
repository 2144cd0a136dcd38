"""JSON after RFC 8259, in the manner of JSONTestSuite: what any parser must take and must not."""

ACCEPTED = {
    "scalars alone": [
        "null",
        "true",
        "false",
        "0",
        "-0",
        '""',
        '"a"',
        "[]",
        "{}",
        " 1 ",
        "\t\n\r[]",
    ],
    "numbers": [
        "12",
        "-1",
        "0.5",
        "1e5",
        "1E+5",
        "1e-05",
        "-0.0e0",
        "123456789012345678901234567890",
    ],
    "escapes": [r'"\"\\\/\b\f\n\r\t"', r'"\u00e9"', r'"\uFFFF"', r'"\u0000"', r'"\uABcd"'],
    "surrogates, paired or not": [r'"\ud83d\ude00"', r'"\ud800"', r'"\ude00\ud83d"'],
    "UTF-8": ['"é"', '"€"', '"😀"', '"\u2028\u2029"', '"\x7f"', '"\ufeff"', '"\ufffe"'],
    "names that come twice": ['{"a":1,"a":2}', '{"":0,"":0}'],
    "nesting": ["[" * 500 + "]" * 500, '{"a":' * 200 + "1" + "}" * 200],
    "whitespace": ['{ "a" : [ 1 , 2 ] , "b" : { } }', "[\n\t1\r\n]", "[" + " " * 80 + "]"],
}

REFUSED = {
    "nothing": ["", " ", "\n"],
    "two texts": ["1 2", "[][]", "null,"],
    "other words": ["True", "NULL", "nul", "NaN", "Infinity", "-Infinity", "undefined", "tru e"],
    "numbers": [
        *["01", "-01", "1.", ".5", "-.5", "+1", "1e", "1e+", "1.e5", "0x1", "1_000", "- 1", "--1"],
        *["1.5.2", "1ee2", "0e+-1", "１"],
    ],
    "strings": [
        '"',
        '"a',
        "'a'",
        "a",
        '"a""b"',
        '"\\"',
        r'"\x41"',
        r'"\u12"',
        r'"\u12g4"',
        r'"\a"',
    ],
    "escapes that aren't": [r'"\U0041"', r'"\0"', r'"\'"', '"\\\n"'],
    "raw control characters": [f'"{chr(code)}"' for code in range(0x20)],
    "commas": ["[1,]", "[,1]", "[1,,2]", '{"a":1,}', '{,"a":1}', "[1 2]", "[,]", "{,}"],
    "objects": [
        '{"a"}',
        '{"a":}',
        "{a:1}",
        "{1:1}",
        '{"a" 1}',
        '{"a":1 "b":2}',
        '{"a":1:2}',
        "{null}",
    ],
    "brackets": ["[", "]", "{", "}", "[1", "1]", '{"a":1', "[1}", '{"a":[}]', "[" * 500],
    "comments": ["[1] // a", "/* a */ 1", "# 1"],
    "other whitespace": ["[1\x0b]", "[1\x0c]", "[\xa01]", "[\u20601]", "\ufeff1"],
    "a long run of blanks": ["[" + " " * 81 + "]"],
}

NO_TEXT = [
    b'"\xff"',
    b'"\xc0\xaf"',
    b'"\xed\xa0\x80"',
    b'"\xe2\x82"',
    b'"\xf4\x90\x80\x80"',
    b"\xff\xfe1",
]
"""What is no UTF-8: alone, overlong, half a pair, cut off, too large, another encoding's mark."""
