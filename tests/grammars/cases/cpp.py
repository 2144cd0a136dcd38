"""C++. A body is what stands in a function; what begins with `#` or a declaration is a program."""

PROGRAMS = {
    "preprocessor": ["#include <vector>\n#include<math.h>\n# define N 10\n#pragma once\nint a;\n"],
    "using, typedef, namespaces": [
        "using namespace std;\nusing std::cout;\nusing V = vector<int>;\ntypedef long long ll;\n"
        "typedef list<boost::any> any_list;\nnamespace a { int x; }\nnamespace { int y; }\n",
        'namespace fs = std::filesystem;\nstatic_assert(sizeof(int) == 4, "int");',
    ],
    "functions": [
        "int f();",
        "int f(int, const vector<string>& names, char *argv[], int n = 3);",
        "static inline unsigned long long f(void) { return 0; }",
        "vector<pair<int,int>>f(vector<int>l,int (*g)(int)){}",
        "auto f(auto x) -> decltype(x + 1) noexcept { return x; }",
        "any_list filter(any_list values, boost::any one) {}",
        "int main(int argc, char** argv) { return argc; }",
    ],
    "globals": ["const int N = 100, M[2] = {1, 2}, *p;", 'const vector<string> days = {"a", "b"};'],
    "templates": [
        "template <typename T, class U = int, int N = 3> T f(T a, U b) { return a; }",
        "template<class T> struct Node { T value; Node<T>* next; };",
        "template <typename... Ts> int count(Ts... all) { return (0 + ... + all); }",
    ],
    "records": [
        "struct point { int x, y = 0; };",
        "class A : public B, private C<int> {\npublic:\n  A() : x_(0), y_{1} {}\n"
        "  explicit A(int x);\n  virtual ~A() = default;\n  int get() const { return x_; }\n"
        "  bool operator<(const A& other) const { return x_ < other.x_; }\n"
        "  virtual void draw() const = 0;\n  void draw() const override;\nprivate:\n"
        "  int x_; static const int y_ = 3;\n};",
        "A::A(int x) : x_(x) {}\nint A::get() const { return x_; }",
        "enum class Color : char { red, green = 2, blue, };\nunion u { int a; float b; };",
    ],
    "nothing after the last brace, or something": ["int f() {}", "int f() {};\n\n", "\n int a;"],
}

BODIES = {
    "declarations": [
        "int i, j = 0, a[10], b[2][3] = {{1}, {2}}, *p = &i; string s(3, 'x'), t{\"a\"};",
        "vector<int>v(n,0); vector<vector<int>> w(n, vector<int>(m, -1));",
        "map<string, int>::iterator it;",
        "const auto& [key, value] = *m.begin(); std::string t = s; unsigned char c[16]; Node* n;",
        "long long int x = 1LL; unsigned u; const int* const q = p; static size_t k; int64_t z;",
        "struct point p; function<int(int, string)> f = g; int (*h)(int) = g; auto x = 1;",
    ],
    "choices": [
        "if (a) b; else if (c) d; else { e; }",
        "if (int x = f(); x > 0) return x; if constexpr (a) b; if (auto it = f()) g();",
        "switch (x) { case 1: case 2: f(); break; case 'a': { g(); } default: h(); }",
    ],
    "loops": [
        "for (int i=0;i<n;i++) f(i); for (;;) {} for (i = 0, j = 1; i < j; ++i, j--) ;",
        "for (auto& [k, v] : m) f(k); for (const auto &x : {1, 2}) g(x); for (char c: s) h(c);",
        "while (i --> 0) continue; do { x++; } while (x < 10); do x--; while(x);",
    ],
    "jumps": [
        "return;",
        "return(a)*b;",
        "return-1;",
        "return{1, 2};",
        'return"YES";',
        "return a, b;",
    ],
    "exceptions": [
        'try { throw runtime_error("x"); } catch (const exception& e) {} catch (...) { throw; }'
    ],
    "operators": [
        "x = a + b * c / d % e - -f - +g << 2 >> 1; y = a < b && c >= d || !e and not f or g;",
        "x += y -= z <<= 2; x = a ? b : c ? d : e; x = (a & b) | (c ^ ~d); p->q.r[s] = *t++; ++*p;",
        "a == b, c != d; x = a+++b; x = a - -b; x = a-- - --b; cout << x << endl; x = y = {1, 2};",
    ],
    "calls and casts": [
        "max<int>(a, b); sort(v.begin(), v.end(), greater<int>()); f({1, 2}, {}); g()()[0](1);",
        "x = (int)y + (double) z; x = (char*)p; y = static_cast<int>(z); n = int(s[i]) - '0';",
        "x = sizeof(int) + sizeof x; b = a.type() == typeid(int) && a != typeid(x);",
        "p = new int[n]; q = new Node(1); delete p; delete[] q;",
        "x.get<int>(); boost::any_cast<int>(*it); std::vector<int>{1, 2}.size(); this->f(); ::g();",
    ],
    "lambdas": [
        "auto f = [](int a, int b) { return a > b; }; f(1, 2);",
        "sort(v.begin(), [&, n = 1](const auto& a, auto b) mutable -> bool { return a < b; });",
        "int x = [=] { return 1; }(); auto g = [this, &x, y]() {};",
    ],
    "literals": [
        "x = 0x1F + 0b101 + 017 + 1'000'000 + 1.5f + .5 + 1. + 1e-9 + 10u + 1LL + 2ull;",
        's = "a\\n\\"\\x41\\u00e9\\0" "b"; c = \'\\\'\';',
        'c = \'"\'; s = R"(a\n"b)"; s = L"é" u8"x";',
        "b = true; p = nullptr; b = false;",
    ],
    "comments": ["// a\nint x; /* b * / ** */ x = 1; // c", "/**/", "x /* a */ = /* b */ 1;"],
    "names that begin with keywords": [
        "int returned = iffy + fortune - new_ + do1; int_ = classes;"
    ],
    "local things": ["struct p { int x; } a; enum { A, B }; using T = int; typedef int I; ;"],
}

REFUSED_BODIES = {
    "semicolons": [
        "int x",
        "x = 1",
        "return x",
        "for (int i = 0; i < n) {}",
        "break",
        "do {} while (x)",
    ],
    "brackets": [
        "f(;",
        "f());",
        "a[1;",
        "a]1[;",
        "{",
        "}",
        "if (a {}",
        "if a) {}",
        "x = (1;",
        "{ f(); ",
    ],
    "operators": [
        *["x = ;", "x = 1 +;", "x = * ;", "x = 1 2;", "x y z;", "a b;", "x = a ? b;", "x = a : b;"],
        *[
            "x = a--b;",
            "x == = y;",
            "x + + ;",
            "x. ;",
            "x.1;",
            "x->;",
            "&& x;",
            "x < ;",
            "/ x;",
            "x = = y;",
        ],
    ],
    "commas": ["f(a,);", "f(,a);", "f(a,,b);", "int x,;", "int ,x;", "vector<int,> v;", "f(a b);"],
    "keywords as names": [
        *[
            "int for;",
            "int if = 1;",
            "x = while;",
            "return return;",
            "x = int;",
            "f(else);",
            "int true = 1;",
        ],
        *["a.class;", "a.for;", "for (int int = 0;;) {}", "auto new = 1;", "int this;"],
    ],
    "statements": [
        *[
            "else x;",
            "if (a) else b;",
            "if () x;",
            "while () x;",
            "for (;) x;",
            "for (x : ) y;",
            "do x;",
        ],
        *[
            "case 1: x;",
            "switch (x) case 1: y;",
            "try { } ",
            "catch (...) {}",
            "if (a) { } else",
            "int;x",
        ],
    ],
    "declarations": [
        *[
            "int 1x;",
            "int x = ;",
            "int x int y;",
            "const;x",
            "vector<int> ;x",
            "vector int> v;",
            "int x[;",
        ],
        *["int* ;x", "vector<vector<int> v;", "auto [a, = b;", "int x {1;", "int f(int x) { }"],
    ],
    "literals": [
        'x = "a;',
        "x = 'a;",
        "x = '';",
        'x = "a\nb";',
        "x = 0x;",
        "x = 1e;",
        "x = 09a;",
        'x = "\\q";',
    ],
    "words run together": ["return1 2;", "intx y z;", "newint[3] x;", "x = newint;]"],
    "characters": ["x = `a`;", "x @ y;", "x = $;", "x = \\;"],
    "lambdas": [
        "auto f = [] int x { };",
        "auto f = [](int x;",
        "auto f = [&&](){};",
        "[] -> int { };]",
    ],
    "comments left open": ["x; /* a", "// a"],
}

REFUSED_PROGRAMS = {
    "nothing": ["", " ", "// only this\n"],
    "statements outside": ["x = 1;", "return 0;", "if (x) {}", "for (;;) {}", "1;"],
    "functions": [
        "int f( {}",
        "int f) {}",
        "f() {",
        "int f(int x,) {}",
        "int f(x y z) {}",
        "int f() { } }",
        "int () {}",
    ],
    "others": [
        *[
            "#include vector>\nint a;",
            "#include\nint a;",
            "#include <vector> int a;",
            "using namespace;",
        ],
        *[
            "using namespace std",
            "template <typename T>",
            "template <> > int f();",
            "struct { int x }",
            "struct a {}",
        ],
        *[
            "enum a { b c };",
            "typedef int;",
            "namespace a {",
            "class A { public int x; };",
            "int a = 1, ;",
        ],
    ],
    "a long run of blanks": ["int a;" + " " * 81 + "int b;"],
}


def accepted() -> dict[str, list[str]]:
    return {
        **PROGRAMS,
        **{name: [_in_function(body) for body in bodies] for name, bodies in BODIES.items()},
    }


def refused() -> dict[str, list[str]]:
    inside = {
        name: [f"int f() {{ {body}}}" for body in bodies] for name, bodies in REFUSED_BODIES.items()
    }
    return {**REFUSED_PROGRAMS, **inside}


def _in_function(body: str) -> str:
    return f"int f() {{ {body}\n}}\n"
