"""Java. A body is what stands in a method, a member what stands in a class."""

PROGRAMS = {
    "heads": [
        "package a.b;\nimport java.util.*;\nimport static java.lang.Math.max;\n\nclass A {}\n",
        "import java.util.List;\npublic final class A extends B<C> implements D, E<F> {}",
    ],
    "types": [
        "interface A<T extends B<? super T>> extends C, D { int f(T t); default void g() {} }",
        "enum A { X, Y(1) { int f() { return 1; } }, Z; int x; A(int x) { this.x = x; } A() {} }",
        "record P(int x, List<String> names) implements Q { P { f(); } static int z = 1; }",
        "sealed interface S permits A, B {} final class A implements S {}",
        "non-sealed class B implements S {}",
        "@FunctionalInterface interface F { @A(1) @B(x = 1, y = {2, 3}) int f(); }",
    ],
}

MEMBERS = {
    "fields": [
        "private static final int[] A = {1, 2}, b[] = new int[3][];",
        "Map<String, List<Integer>> m;",
    ],
    "methods": [
        "static <T extends A & B> List<T> f(final T t, int... xs) throws E, F { return null; }",
        "abstract void f();",
        "int[] f(int a[])[] { return null; }",
    ],
    "the others": [
        "A(int x) { super(x); }",
        "static { f(); }",
        "{ g(); }",
        "class B { enum C { D } }",
        ";",
    ],
}

BODIES = {
    "declarations": [
        "int i, j = 0, a[] = {1, 2}; final var x = 1; List<Integer> l = new ArrayList<>();",
        "Map<String, Map<Integer, int[]>> m = new HashMap<>();",
        "int[][] a = new int[3][n], b; A.B<C>.D d;",
        "List <Integer> l; Map.Entry<String, ?> e; List<? extends Number>[] f;",
    ],
    "choices": [
        "if (a) f(); else if (b) { } else g();",
        "switch (x) { case 1: case 2: f(); break; default: g(); }",
        "switch (x) { case 1, 2 -> f(); case A a when a.b > 1 -> { } }",
        "switch (x) { case P(int x, var y) -> g(); default -> throw e; }",
        'int y = switch (x) { case "a" -> 1; default -> { yield 2; } };',
        "if (!(o instanceof String s) && o instanceof List<?>) f();",
    ],
    "loops": [
        "for (int i = 0, n = 3; i < n; i++) f(); for (;;) {} for (i = 0, j = 1; ; i++, j--) ;",
        "for (int x : xs) f(x); for (Map.Entry<String, Integer> e : m.entrySet()) { }",
        "while (true) break; do { x++; } while (x < 10); outer: for (;;) continue outer;",
    ],
    "jumps": [
        "return;",
        "return(a);",
        "return-1;",
        'return"a";',
        "return !a;",
        'throw new E("x");',
    ],
    "exceptions": [
        "try { f(); } catch (A | B e) { } finally { g(); }",
        "try (R r = f(); var s = g()) { }",
        'assert x > 0 : "x"; synchronized (this) { }',
    ],
    "operators": [
        "x = a + b * c / d % e - -f << 2 >>> 1;",
        "y = a < b && c >= d || !e ^ f; x = a ? b : c ? d : e;",
        "x += y -= z >>>= 2; x = ~a & b | c; a[i++] = --b;",
        "x = a - -b; x = a+++b; ++i; i--; this.x = 1;",
    ],
    "calls": [
        "f(); a.b.c().d(1, 2)[0].e(); new A().f(); super.f();",
        "this.<T>g(); Collections.<A>emptyList();",
        'new int[]{1, 2}.clone(); new A(1) { int x; }; outer.new B(); (a).f(); "a".length();',
        "int n = int.class.hashCode() + String[].class.hashCode();",
    ],
    "casts": [
        "x = (int) y + (int) -z; s = (String) o; l = (List<Integer>) (A & B) o; ((A) b).f();"
    ],
    "lambdas": [
        "f(x -> x + 1); f((x, y) -> { return x; }); f(() -> 1);",
        "f((int x, var y) -> x); Runnable r = () -> {};",
        "f(Integer::compare); f(int[]::new); f(ArrayList<A>::new);",
        "f(this::g); s.map(String::valueOf);",
        "l.stream().filter(x -> x > 0 ? a : b).collect(Collectors.toList());",
    ],
    "literals": [
        "x = 0x1F + 0b101 + 017 + 1_000 + 1.5f + .5 + 1. + 1e-9 + 10L + 2d;",
        "s = \"a\\n\\\"\\u00e9\\0é\"; c = '\\''; c = '\"';",
        's = """\n  a "b"\n  """; b = true; o = null;',
    ],
    "comments": ["// a\nint x; /* b ** */ x = 1;", "/** @a */ ;"],
    "names that begin with keywords": [
        "int returned = iffy + newest; int_ = _a + _b; String record, yields;"
    ],
    "local types": ["class A { } record P(int x) { } enum E { X } interface I { }"],
}

REFUSED_BODIES = {
    "semicolons": ["int x", "x = 1", "return x", "for (int i = 0; i < n) {}", "f()", "break"],
    "brackets": [
        "f(;",
        "f());",
        "a[1;",
        "{",
        "}",
        "if (a {}",
        "if a) {}",
        "x = (1;",
        "List<List<A> x;",
        "x = a);",
    ],
    "no statements": ["a;", "a + b;", "1;", "a.b;", "a[1];", "(a);", "-a;", '"a";', "a -> b;"],
    "operators": [
        "x = ;",
        "x = 1 +;",
        "x = 1 2;",
        "a b c;",
        "x = a ? b;",
        "x = a--b;",
        "x = * a;",
        "x.;",
        "x = a = ;",
    ],
    "commas": ["f(a,);", "f(,a);", "f(a,,b);", "int x,;", "int ,x;", "Map<A,> m;", "f(a b);"],
    "keywords as names": [
        "int for;",
        "x = while;",
        "int class = 1;",
        "f(else);",
        "a.new;",
        "int true;",
        "x = int;",
        "int _;",
    ],
    "statements": [
        *[
            "else f();",
            "if (a) else f();",
            "if () f();",
            "for (;) f();",
            "for (x : y) f();",
            "case 1: f();",
        ],
        *[
            "try { }",
            "catch (E e) { }",
            "try f();",
            "do f();",
            "switch (x) { f(); }",
            "while f();",
            "if (a) int x = 1;",
        ],
    ],
    "lambdas": ["f(x, y) -> x;", "f(-> x);", "f(x -> );", "f((x y z) -> x);", "f(::g);", "f(A::);"],
    "literals": [
        'x = "a;',
        "x = 'ab';",
        "x = '';",
        'x = "a\nb";',
        "x = 0x;",
        'x = "\\q";',
        "x = 1__;",
    ],
    "creations": [
        "x = new;",
        "x = new A;",
        "x = new int;",
        "x = new int[];",
        "x = new int[1]{1};",
        "List<> l;",
        "x = newA B;",
    ],
    "words run together": ["inti = 0 1;", "throwe x y;"],
    "comments left open": ["f(); /* a", "// a"],
}

REFUSED_PROGRAMS = {
    "nothing": ["", "import java.util.*;", "package a;"],
    "outside a class": ["f();", "x = 1;", "return;"],
    "heads": [
        "class {}",
        "class A",
        "class A {",
        "class A }",
        "class A extends {}",
        "import a.;\nclass A {}",
        "import a\nclass A {}",
    ],
    "members": [
        *[
            "class A { int; }",
            "class A { int x }",
            "class A { f(); }",
            "class A { int f( { } }",
            "class A { x = 1; }",
        ],
        *[
            "class A { int f(int) { } }",
            "class A { return; }",
            "class A { int f() { } } }",
            "class A { void x; }",
        ],
    ],
    "a long run of blanks": ["class A {" + " " * 81 + "}"],
}


def accepted() -> dict[str, list[str]]:
    members = {name: [f"class A {{\n{one}\n}}" for one in some] for name, some in MEMBERS.items()}
    bodies = {
        name: [f"class A {{ void f() {{ {body}\n}} }}" for body in some]
        for name, some in BODIES.items()
    }
    return {**PROGRAMS, **{f"members: {name}": some for name, some in members.items()}, **bodies}


def refused() -> dict[str, list[str]]:
    inside = {
        name: [f"class A {{ void f() {{ {body}}} }}" for body in some]
        for name, some in REFUSED_BODIES.items()
    }
    return {**REFUSED_PROGRAMS, **inside}
