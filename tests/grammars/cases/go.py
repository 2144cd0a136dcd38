"""Go. A body is what stands in a function."""

PROGRAMS = {
    "heads": [
        'package main\n\nimport "fmt"\n\nfunc f() {}\n',
        'import (\n\t"math"\n\tm "a/b"\n\t. "c"; _ "d"\n)\n\nfunc f() {}\n',
        "func f() {}",
        "\n// a\nfunc f() {\n}\n\n\n",
    ],
    "functions": [
        "func F(a, b int, s string, xs ...float64) (n int, err error) { return }",
        "func f(int, []string) [2]float64 {}\nfunc g(x func(int) bool) func() {}",
        "func (s *Stack[T]) Push(x T) {}\nfunc (s stack) Len() int { return len(s) }",
        "func Map[K comparable, V int | ~float64](m map[K]V, f func(V) V) []V {}",
        "func f(a int,\n\tb int,\n) {\n}",
    ],
    "declarations": [
        "var x, y int = 1, 2\nvar (\n\ta int\n\tb = 2\n)\n",
        "const Pi = 3.14\nconst (\n\tA = iota\n\tB\n)\n",
        'type T struct {\n\ta, b int `json:"a"`\n\t*U\n\tp.V\n\tf func()\n}\n',
        "type I interface {\n\tM(int) string\n\tJ\n}\n",
        "type A = B; type C []map[string]*D; type E chan<- int;",
        "type F <-chan int; type G[T any] struct{ x T }",
    ],
}

BODIES = {
    "simple": [
        "x := 1",
        "x, y = y, x",
        "x++; y--",
        "x += 2; x &^= y; x <<= 1",
        "f(x)",
        "ch <- 1",
        "<-ch",
        ";;",
    ],
    "declarations": ["var x int\nvar y, z = 1, 2\nconst c = 1\ntype T struct{ x int }"],
    "choices": [
        "if x > 0 { f() } else if y := g(); y { } else { h() }",
        "if !(a) {}\nif (a) == b {}\nif x, ok := m[k]; ok && x == (T{1}) { }",
        "switch x { case 1, 2: f()\ncase 3:\n\tg(); fallthrough\ndefault:\n}",
        "switch { case x < 1: return }",
        "switch y := x.(type) { case int, []string: case *T: case nil: }",
        "switch x := f(); x {}\nselect {\ncase x := <-ch: f(x)\ncase ch <- 1:\ndefault:\n}",
    ],
    "loops": [
        "for i := 0; i < n; i++ { }\nfor {}\nfor x < 3 {}\nfor ;; {}",
        "{}\nfor i, j := 0, 1; ; i, j = i+1, j-1 {}",
        "for _, x := range xs {}\nfor i := range 10 {}\nfor range ch {}",
        'for _, s := range []string{"a"} {}',
        "outer:\n\tfor {\n\t\tcontinue outer\n\t}\n\tbreak",
    ],
    "jumps": [
        "return",
        "return 1, nil",
        "return (a)",
        "return -1",
        "return[]int{1}",
        "goto end\nend:",
        "defer f()\ngo func() {}()",
    ],
    "operators": [
        "x := a + b*c/d%e - -f<<2>>1 &^ g; y := a < b && c >= d || !e;",
        "z := ^a ^ b | c & d; p := &x; *p = <-ch",
        "x := a +\n\tb\ny := f(\n\ta,\n\tb,\n)\nz := a.\n\tb()",
        "x := a&b == 0 && &y != nil",
    ],
    "calls": [
        "x := f(a, b...)(c).d[1][1:2][:][1:2:3].(T)",
        "m := make(map[string][]int, 3); p := new(T);",
        "c := make(chan int); l := len([]rune(s)) + int(x)",
        'y := []byte("a"); z := Map[int, string](m); w := (*T)(nil); v := f[int](1)',
        "g := func(a, b int) int { return a }(1, 2)",
    ],
    "literals": [
        'a := []int{1, 2}; b := [...]string{"a", 2: "b"}; c := [2][2]int{{1, 2}, {3}}',
        'm := map[string]T{"a": {1}, "b": T{x: 1},\n};',
        "s := struct{ x int }{1}; p := &T{}; q := pkg.T{1}; g := G[int]{}",
        "x := 0x1F + 0b1 + 0o17 + 017 + 1_000 + 1.5 + .5 + 1. + 1e-9 + 2i",
        's := "a\\n\\"\\x41\\u00e9"; t := `a\n\\b`;',
        "r := 'a'; q := '\\''; u := 'é'; v := '\\000'",
    ],
    "interfaces": [
        "var x interface{} = 1; m := map[interface{}]interface{}{}; _ = x.(interface{ F() })"
    ],
    "comments": ["x := 1 // a\n/* b */ y := /* c */ 2 /* d */\n// e"],
    "names that begin with keywords": [
        "returned := iffy + fortune; funcs := 1; type_ := 2; var1 := 3"
    ],
}

REFUSED_BODIES = {
    "line ends": [
        "x := a\n/ b",
        "x := a\n&& b",
        "f(a\n)",
        "f(a,\nb\n)",
        "return\n1 2",
        "x := []int{1\n}",
        "if x\n{\n}",
        "x := a\n.b",
        "x\n++",
    ],
    "no line ends": [
        "x := 1 y := 2",
        "f() g()",
        "var x int var y int",
        "x++ y++",
        "return 1 return",
        "if a {} f()",
    ],
    "brackets": [
        "f(;",
        "f())",
        "a[1",
        "{",
        "}",
        "if a {",
        "x := (1",
        "if a }",
        "x := []int{1",
        "a[]",
        "f)(",
    ],
    "operators": [
        "x := ",
        "x := 1 +",
        "x := 1 2",
        "a b",
        "x := a ? b : c",
        "x = = y",
        "x := * ",
        "x.",
        "x =+= 1",
        "x := a--b",
        "++x",
    ],
    "commas": ["f(,a)", "f(a,,b)", "x, := 1", ", x := 1", "f(a b)", "x := []int{,}", "var x, int,"],
    "keywords as names": [
        "for := 1",
        "var if int",
        "x = func",
        "f(else)",
        "type := 1",
        "range := 2",
        "a.type",
    ],
    "statements": [
        *[
            "else {}",
            "if a f()",
            "if {}",
            "if a {} else f()",
            "for i := 0; i < n {}",
            "for x := range {}",
            "while a {}",
        ],
        *[
            "case 1:",
            "switch x { f() }",
            "if x := 1 { y } else",
            "do {} while (x)",
            "for ; {}",
            "if x = T{1} == y {}",
            "defer",
            "go",
        ],
    ],
    "composite literals in headers": [
        "if x == T{1} {}",
        "for _, x := range T{1} {}",
        "switch x := T{1}; x {}",
    ],
    "words run together": [
        "ifx == 1 {}",
        "varx int",
        "for_, x := range y {}",
        "rangex y",
        "if x {}elsef()",
    ],
    "literals": [
        'x := "a',
        "x := 'ab'",
        "x := ''",
        'x := "a\nb"',
        "x := 0x",
        'x := "\\q"',
        "x := 1__0",
        "x := `a",
        "x := '\\0'",
    ],
    "declarations": [
        "var x",
        "var = 1",
        "const x int",
        "type T",
        "x int",
        "var x int int",
        "func g() {}",
        "type struct {}",
    ],
    "comments left open": ["f() /* a"],
}

REFUSED_PROGRAMS = {
    "nothing useful": ["x := 1", "return", "f()", "import", "package", "{}"],
    "functions": [
        "func f {}",
        "func f( {}",
        "func () {}",
        "func f()\n{\n}",
        "func f(a b c) {}",
        "func f() int int {}",
        "func f() }",
    ],
    "imports": ['func f() {}\nimport "fmt"\n', "import fmt\n", 'import ("fmt"', 'import "a" "b"\n'],
    "a long run of blanks": ["func f() {" + " " * 81 + "}"],
}


def accepted() -> dict[str, list[str]]:
    inside = {
        name: [f"func f() {{\n{body}\n}}\n" for body in some] for name, some in BODIES.items()
    }
    return {**PROGRAMS, **inside}


def refused() -> dict[str, list[str]]:
    inside = {
        name: [f"func f() {{\n{body}\n}}\n" for body in some]
        for name, some in REFUSED_BODIES.items()
    }
    return {**REFUSED_PROGRAMS, **inside}
