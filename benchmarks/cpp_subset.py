r"""A subset of C++ as EBNF: what short programs are made of, as HumanEval-X has them.

Without a scanner: a name may be a keyword, ``return x`` may be written ``returnx`` only where a
bracket follows, and what names mean is not looked at. Types are the built-in ones and those of the
standard library, so that ``a < b`` and ``vector<int> b`` stay apart. Not covered: classes,
templates of one's own, lambdas, switch, goto, preprocessor conditions.
"""

from __future__ import annotations

import random

from subjects import WORDS

GRAMMAR = r"""
root ::= ws (directive | using | function | declaration)+
directive ::= "#" [a-z]+ [^\n]* "\n" ws
using ::= "using" gap "namespace" gap identifier ";" ws
function ::= declared "(" ws (parameter ("," ws parameter)*)? ")" ws (block | ";" ws)
parameter ::= declared ("[" ws number? ws "]" ws)* ("=" ws initializer)?

declared ::= ("const" gap)? (word gap | generic ws | (word | generic) ws pointer+) identifier
type ::= ("const" gap)? (word | generic) ws pointer*
pointer ::= ("*" | "&") ws
word ::= sized | "bool" | "char" | "float" | "double" | "void" | "auto" | "string" | "std::string" |
  "size_t" | "stringstream" | generic "::" ("const_")? "iterator"
sized ::= ("unsigned" gap | "signed" gap)? ("long long" | "long" | "short" | "int" | "char")
  (gap "int")? | "unsigned"
generic ::= "std::"? ("vector" | "map" | "set" | "pair" | "tuple" | "queue" | "stack" | "deque" |
  "list" | "unordered_map" | "unordered_set" | "multiset" | "priority_queue")
  ws "<" ws type ("," ws type)* ">"

block ::= "{" ws statement* "}" ws
statement ::= block | declaration | simple? ";" ws | if | while | do | for | return | jump
declaration ::= declared declarator ("," ws pointer* identifier declarator)* ";" ws
declarator ::= ("[" ws expression? "]" ws)* ("=" ws initializer | "(" ws arguments ")" ws | braces)?
initializer ::= assigned | braces
braces ::= "{" ws (initializer ("," ws initializer)* ("," ws)?)? "}" ws
if ::= "if" ws "(" ws expression ")" ws statement ("else" (gap statement | block))?
while ::= "while" ws "(" ws expression ")" ws statement
do ::= "do" (gap statement | block) "while" ws "(" ws expression ")" ws ";" ws
for ::= "for" ws "(" ws (declaration | simple? ";" ws) expression? ";" ws simple? ")" ws statement |
  "for" ws "(" ws declared ":" ws expression ")" ws statement
return ::= "return" (gap expression | parenthesis | ws braces)? ws ";" ws
jump ::= ("break" | "continue") ws ";" ws

simple ::= expression
expression ::= assigned ("," ws assigned)*
assigned ::= conditional | unary assignment ws initializer
assignment ::= "=" | "+=" | "-=" | "*=" | "/=" | "%=" | "&=" | "|=" | "^=" | "<<=" | ">>="
conditional ::= or | or "?" ws assigned ":" ws assigned
or ::= and | or ("||" ws | "or" gap) and
and ::= bits | and ("&&" ws | "and" gap) bits
bits ::= equality | bits [&|^] ws equality
equality ::= relation | equality ("==" | "!=") ws relation
relation ::= shift | relation ("<=" | ">=" | "<" | ">") ws shift
shift ::= sum | shift ("<<" | ">>") ws sum
sum ::= product | sum [+-] ws product
product ::= unary | product [*/%] ws unary
unary ::= postfix | ("++" | "--" | "-" | "+" | "!" | "*" | "&" | "~") ws unary | "not" gap unary |
  "(" ws type ")" ws unary
postfix ::= primary suffix*
suffix ::= "[" ws expression "]" ws | call | ("." | "->") ws identifier | ("++" | "--") ws
call ::= "(" ws arguments? ")" ws
arguments ::= initializer ("," ws initializer)*
primary ::= scoped | number ws | (string ws)+ | character ws | parenthesis | made
parenthesis ::= "(" ws expression ")" ws
made ::= (word | generic) ws (call | braces)
scoped ::= "::"? name ("::" name)* ws
identifier ::= name ws
name ::= [a-zA-Z_] [a-zA-Z0-9_]*
number ::= ([0-9]+ ("." [0-9]*)? | "." [0-9]+) ([eE] [+-]? [0-9]+)? [fuL]{0,3} | "0x" [0-9a-fA-F]+
string ::= "\"" ([^"\\\n] | escape)* "\""
character ::= "'" ([^'\\\n] | escape) "'"
escape ::= "\\" [nrt"'\\0]
gap ::= [ \n\t\r] ws
ws ::= ([ \n\t\r] | "//" [^\n]* "\n" | "/*" ([^*] | "*"+ [^*/])* "*"+ "/")*
"""

TYPES = ["int", "bool", "long long", "string", "vector<int>", "map<string, int>"]


def program(rng: random.Random) -> str:
    """A function of a few statements, with what it includes."""

    def name() -> str:
        return rng.choice(WORDS)

    def expression(depth: int = 0) -> str:
        kind = rng.randrange(8 if depth < 2 else 3)
        if kind == 0:
            return name()
        if kind == 1:
            return str(rng.randrange(100))
        if kind == 2:
            return f"{name()}.size()"
        inner = expression(depth + 1)
        if kind == 3:
            return f"{inner} {rng.choice(['+', '-', '*', '%', '<', '==', 'and'])} {name()}"
        if kind == 4:
            return f"max({inner}, {expression(depth + 1)})"
        if kind == 5:
            return f"{name()}[{inner}]"
        if kind == 6:
            return f"({inner})"
        return f'"{name()}"'

    def statement(depth: int = 1) -> str:
        pad = "    " * depth
        kind = rng.randrange(7 if depth < 3 else 4)
        if kind == 0:
            return f"{pad}{rng.choice(TYPES)} {name()} = {expression()};\n"
        if kind == 1:
            return f"{pad}{name()} {rng.choice(['=', '+=', '*='])} {expression()};\n"
        if kind == 2:
            return f"{pad}{name()}.push_back({expression()});\n"
        if kind == 3:
            return f"{pad}return {expression()};\n"
        inner = "".join(statement(depth + 1) for _ in range(rng.randrange(1, 3)))
        if kind == 4:
            return f"{pad}if ({expression()}) {{\n{inner}{pad}}}\n"
        if kind == 5:
            return f"{pad}while ({name()} > {expression()}) {{\n{inner}{pad}}}\n"
        return f"{pad}for (int i = 0; i < {name()}.size(); i++) {{\n{inner}{pad}}}\n"

    body = "".join(statement() for _ in range(rng.randrange(2, 5)))
    head = f"{rng.choice(TYPES)} {name()}({rng.choice(TYPES)} {name()}, int {name()})"
    return f"#include <vector>\nusing namespace std;\n{head} {{\n{body}}}\n"
