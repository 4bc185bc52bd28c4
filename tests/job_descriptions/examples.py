"""Texts with their canonical trees, rule by rule; each was checked against the C library.

Where the library has a defect, what stands here is the better behaviour that docs/rsl.md promises.
"""

from __future__ import annotations

from typing import Any


def rel(attribute: str, *values: Any, op: str = "=") -> dict[str, Any]:
    return {"attr": attribute, "op": op, "values": list(values)}


def both(*operands: Any) -> dict[str, Any]:
    return {"bool": "&", "operands": list(operands)}


def any_of(*operands: Any) -> dict[str, Any]:
    return {"bool": "|", "operands": list(operands)}


def multi(*operands: Any) -> dict[str, Any]:
    return {"bool": "+", "operands": list(operands)}


def seq(*values: Any) -> dict[str, Any]:
    return {"seq": list(values)}


def var(name: str, default: Any = None) -> dict[str, Any]:
    return {"var": name} if default is None else {"var": name, "default": default}


def cat(left: Any, right: Any) -> dict[str, Any]:
    return {"cat": [left, right]}


LEXICAL: list[tuple[str, Any]] = [
    (" \t\n& \t\n( a = b ) \n", both(rel("a", "b"))),
    ("&(a=b)\r\n(c=d\r\n)\r\n", both(rel("a", "b"), rel("c", "d"))),
    ("a\r\n=\r\nb\r\n", rel("a", "b")),
    ("a=b\x0bc\x0cd", rel("a", "b\x0bc\x0cd")),
    ("a=b \x0b", rel("a", "b", "\x0b")),
    ("(* c *)a(* c *)=(**)b(***)", rel("a", "b")),
    ("a=b(* c *)d", rel("a", "b", "d")),
    ("a=b (* ( \" ' (* *) c", rel("a", "b", "c")),
    ("a=(*)*)b", rel("a", "b")),
    ("a=b(*)*)c", rel("a", "b", "c")),
    ("a=(* * ) *)b", rel("a", "b")),
    ("a='it''s' ", rel("a", "it's")),
    ('a="""" ', rel("a", '"')),
    ("a='''' ", rel("a", "'")),
    ('a="it\'s" ', rel("a", "it's")),
    ("a='say \"x\"' ", rel("a", 'say "x"')),
    ('a="b\\" c', rel("a", "b\\", "c")),
    ('a="one\ntwo" ', rel("a", "one\ntwo")),
    ('a="one\r\ntwo" ', rel("a", "one\r\ntwo")),
    ("a=\"\" ''", rel("a", "", "")),
    ("a=^|a||b| ", rel("a", "a|b")),
    ("a=^xhellox ", rel("a", "hello")),
    ("a=^xhexxlox ", rel("a", "hexlo")),
    ("a=^ hello world ", rel("a", "hello", "world")),
    ("a=^\nhello\nworld", rel("a", "hello", "world")),
    ("a=^(b( c", rel("a", "b", "c")),
    ("a=^^b^ c", rel("a", "b", "c")),
    ('a=^"b" c', rel("a", "b", "c")),
    ("a=^)b) c", rel("a", "b", "c")),
    ("a=^éb cé d", rel("a", "b c", "d")),
    ('a="a"b', rel("a", "a", "b")),
    ('a=a"b" ', rel("a", "a", "b")),
    ("a=\"a\"'b' ", rel("a", "a", "b")),
    ('a="a""b" ', rel("a", 'a"b')),
    ('a="(* no comment *)" ', rel("a", "(* no comment *)")),
    ("a=x+y a&b|c 1e+5 g++", rel("a", "x+y", "a&b|c", "1e+5", "g++")),
    ("a=,;:/\\@%_-.[]{}`", rel("a", ",;:/\\@%_-.[]{}`")),
    ("a=\x01\x7f é 漢字", rel("a", "\x01\x7f", "é", "漢字")),
    ("a=b", rel("a", "b")),
    ("a!=b", rel("a", "b", op="!=")),
    ("a<b", rel("a", "b", op="<")),
    ("a<=b", rel("a", "b", op="<=")),
    ("a>b", rel("a", "b", op=">")),
    ("a >= b", rel("a", "b", op=">=")),
    ('a="x"', rel("a", "x")),
    ('a=b "x"', rel("a", "b", "x")),
    ("a=b 'x'", rel("a", "b", "x")),
    ("a=^|x|", rel("a", "x")),
]

SYNTAX: list[tuple[str, Any]] = [
    ("a=b c (d e)", rel("a", "b", "c", seq("d", "e"))),
    ("+(+(&(a=b)))", multi(multi(both(rel("a", "b"))))),
    ("|(&(a=b))(+(c=d))", any_of(both(rel("a", "b")), multi(rel("c", "d")))),
    ("+(a=b)(c=d)", multi(rel("a", "b"), rel("c", "d"))),
    ('&("a b"=c)', both(rel("a b", "c"))),
    ("&(\"\"=c)('x'=d)(^|y|=e)", both(rel("", "c"), rel("x", "d"), rel("y", "e"))),
    ("a=b(c)d", rel("a", "b", seq("c"), "d")),
    ("a=((b)(c d))", rel("a", seq(seq("b"), seq("c", "d")))),
    ("&(a=b)(a=b)(a>c)", both(rel("a", "b"), rel("a", "b"), rel("a", "c", op=">"))),
    ("&(rsl_substitution=a)", both(rel("rsl_substitution", "a"))),
    (
        '+(&(count=4)(executable=$(BIN)/x))(a!="b c" (d))',
        multi(
            both(rel("count", "4"), rel("executable", cat(var("BIN"), "/x"))),
            rel("a", "b c", seq("d"), op="!="),
        ),
    ),
]

CONCATENATION: list[tuple[str, Any]] = [
    ("a=b#c", rel("a", cat("b", "c"))),
    ("a=b # (* c *) c", rel("a", cat("b", "c"))),
    ("a=b#c#d", rel("a", cat("b", cat("c", "d")))),
    ("a=\"b\"#'c' ", rel("a", cat("b", "c"))),
    ("a=foo$(X)bar", rel("a", cat("foo", cat(var("X"), "bar")))),
    ("a=$(X)$(Y)", rel("a", cat(var("X"), var("Y")))),
    ("a=$(X)/bin", rel("a", cat(var("X"), "/bin"))),
    ("a=p$(X)q#r", rel("a", cat("p", cat(var("X"), cat("q", "r"))))),
    ("a=p#q$(X)r", rel("a", cat("p", cat("q", cat(var("X"), "r"))))),
    ('a=$(X)"foo" ', rel("a", var("X"), "foo")),
    ('a="foo"$(X)', rel("a", "foo", var("X"))),
    ('a="foo"$(X)bar', rel("a", "foo", cat(var("X"), "bar"))),
    ('a=$(X)#"foo" ', rel("a", cat(var("X"), "foo"))),
    ('a=b#"foo"$(X)', rel("a", cat("b", "foo"), var("X"))),
    ('a=$(X)"foo"#b', rel("a", var("X"), cat("foo", "b"))),
    ("a=$(X) foo", rel("a", var("X"), "foo")),
    ("a=$(X)(* c *)foo", rel("a", var("X"), "foo")),
    ("a=foo $(X)", rel("a", "foo", var("X"))),
    ("a=foo(* c *)$(X)", rel("a", "foo", var("X"))),
    ("a=$(X)(b)", rel("a", var("X"), seq("b"))),
    ("a=(b)$(X)", rel("a", seq("b"), var("X"))),
    ("a=($(X)b c)", rel("a", seq(cat(var("X"), "b"), "c"))),
]

VARIABLES: list[tuple[str, Any]] = [
    ("a=$(X)", rel("a", var("X"))),
    ("a=$(X d)", rel("a", var("X", "d"))),
    ("a=$( (* c *) X\n d )", rel("a", var("X", "d"))),
    ("a=$ (X)", rel("a", var("X"))),
    ("a=$(* c *)(X)", rel("a", var("X"))),
    ("a=foo$ (X)", rel("a", cat("foo", var("X")))),
    ('a=$("my var")', rel("a", var("my var"))),
    ('a=$("")', rel("a", var(""))),
    ('a=$(X"d")', rel("a", var("X", "d"))),
    ("a=$(X d#e)", rel("a", var("X", cat("d", "e")))),
    ("a=$(X $(Y e))", rel("a", var("X", var("Y", "e")))),
    ("a=$(X $(Y)e)", rel("a", var("X", cat(var("Y"), "e")))),
    ('a="$(X)" ', rel("a", "$(X)")),
]

TREES = LEXICAL + SYNTAX + CONCATENATION + VARIABLES

REFUSED: list[str] = [
    # characters
    "a=~/x",
    "a=*.c",
    "a=b*",
    "a=b?",
    "&(a=b)?(c=d)",
    "a*=b",
    "a=b !c",
    "&(a=b\r)",
    "a=b\rc",
    "a=b\r",
    "&(a=b)\r(c=d)",
    "a=\0",
    'a="\0"',
    # quotes and comments
    'a="b',
    "a='b",
    "a=^xb",
    "a=^",
    'a="b""',
    '&(a=b)"',
    "&(a=b)(* c",
    'a=b "q',
    "a=b (*)",
    '&(a=b)"x"',
    # operators
    "a! =b",
    "a< =b",
    "a> =b",
    "a==b",
    "a=<b",
    "a<>b",
    "a=>b",
    "a!b",
    "a=b=c",
    "=b",
    "a",
    "a b",
    # requests
    "",
    " ",
    "(* c *)",
    "(a=b)",
    "&((a=b))",
    "&(&)",
    "&a=b",
    "+&(a=b)",
    "&(a=b)&(c=d)",
    "&()",
    "&",
    "+",
    "&(a=b",
    "&(a=b))",
    "&(a=b)c",
    "&(a=b)c=d",
    "&(a=b) +",
    ")",
    "((a=b))",
    "&(a=b)()",
    "&(a)",
    "a=b)",
    "(&(a=b))",
    "$(X)=b",
    "a#b=c",
    "&(a#b=c)",
    # values
    "a=",
    "a=()",
    "&(a=)",
    "a=b ()",
    "a=(b",
    "a=(b))",
    "a=+x",
    "a=x +y",
    "a=&x",
    "a=|",
    "a=b (c=d)",
    # concatenation
    "a=#b",
    "a=b#",
    "a=b##c",
    "a=(b)#c",
    "a=b#(c)",
    "a=$(X)#",
    "a=$(X)+y",
    "a=b#)",
    "&(a=b#)",
    # variables
    "a=$X",
    "a=$()",
    "a=$$(X)",
    "a=${X}",
    "a=$",
    "a=$(X",
    "a=$(X))",
    "a=$()b",
    "a=$(X a b)",
    "a=$(X (a b))",
    "a=$(A#B)",
    "a=$($(N))",
    "a=$((X))",
]

EVALUATED: list[tuple[str, Any]] = [
    ("a=b#c#d", rel("a", "bcd")),
    (
        "&(rsl_substitution=(A a))(b=$(A))",
        both(rel("rsl_substitution", seq("A", "a")), rel("b", "a")),
    ),
    (
        "&(RSLSubstitution=(A a))(b=$(A)x)",
        both(rel("RSLSubstitution", seq("A", "a")), rel("b", "ax")),
    ),
    (
        "&(Rsl_Substitution=(A a)(B $(A)b))(c=($(B)) d)",
        both(rel("Rsl_Substitution", seq("A", "a"), seq("B", "ab")), rel("c", seq("ab"), "d")),
    ),
    (
        "&(rsl_substitution=(A a))(rsl_substitution=(A b))(c=$(A))",
        both(
            rel("rsl_substitution", seq("A", "a")),
            rel("rsl_substitution", seq("A", "b")),
            rel("c", "a"),
        ),
    ),
    (
        "+(rsl_substitution=(A a))(&(rsl_substitution=(A $(A)b))(c=$(A)))(&(c=$(A)))",
        multi(
            rel("rsl_substitution", seq("A", "a")),
            both(rel("rsl_substitution", seq("A", "ab")), rel("c", "ab")),
            both(rel("c", "a")),
        ),
    ),
    (
        "&(rsl_substitution=(A a))(|(b=$(A)))",
        both(rel("rsl_substitution", seq("A", "a")), any_of(rel("b", "a"))),
    ),
    (
        '&(rsl_substitution=(E ""))(b=$(E)x)(c=$(E))',
        both(rel("rsl_substitution", seq("E", "")), rel("b", "x"), rel("c", "")),
    ),
    (
        '&(rsl_substitution=(A "$(B)")(B b))(c=$(A))',
        both(rel("rsl_substitution", seq("A", "$(B)"), seq("B", "b")), rel("c", "$(B)")),
    ),
    (
        "&(rsl_substitution=(X n)($(X) q))(b=$(n))",
        both(rel("rsl_substitution", seq("X", "n"), seq("n", "q")), rel("b", "q")),
    ),
    (
        "&(rsl_substitution!=(A a))(b=$(A))",
        both(rel("rsl_substitution", seq("A", "a"), op="!="), rel("b", "a")),
    ),
    ("&(variables=(A a))(b=c)", both(rel("variables", seq("A", "a")), rel("b", "c"))),
    ("rsl_substitution=(A a)(B $(A))", rel("rsl_substitution", seq("A", "a"), seq("B", "a"))),
    ("a=$(X d)", rel("a", "d")),
    ("a=$(X d#e)f", rel("a", "def")),
    ("a=$(X $(Y e))", rel("a", "e")),
    (
        "&(rsl_substitution=(X x))(a=$(X $(UNDEFINED)))",
        both(rel("rsl_substitution", seq("X", "x")), rel("a", "x")),
    ),
]

UNEVALUABLE: list[str] = [
    "a=$(X)",
    "a=b#$(X)",
    "&(a=$(A))(rsl_substitution=(A a))",
    "&(rsl_substitution=(A $(B))(B b))",
    "&(rsl_substitution=(A $(A)))",
    "&(rsl_substitution=(A a))(b=$(a))",
    "&(rsl_substitution=(A a b))",
    "&(rsl_substitution=(A))",
    "&(rsl_substitution=A a)",
    "&(rsl_substitution=((A a)))",
    "&(rsl_substitution=(A (a b)))",
    "&(rsl_substitution=((A) a))",
    "+(&(rsl_substitution=(A a)))(&(b=$(A)))",
    "&(&(rsl_substitution=(A a)))(b=$(A))",
    "&(|(rsl_substitution=(A a)))(b=$(A))",
    "&(variables=(A a))(b=$(A))",
    "a=$(X $(Y))",
    "&(DATADIR=(X /data))(b=$(DATADIR))",
    '&(rsl_substitution=(TOPDIR /t)(DATADIR $(TOPDIR)"/data"))',
]

WHOLE = (
    """+(priority=high)(name="é (1)")(distinct=yes)(after=j1 j22:any)(group=physics)(length=2500.5)
    (inputFile=(data/one 10K) "two é")(inputMode=whole)(deadline="+0.5")(hint=io 0.25)
    (mips=0.000001)(maxHold=0.5)(quorum=1)(redundancy=2)(retry=3)(rerun=no)(progress=SQ)(asynchrony=0.1)
    (deviation=7)(connect=(all 29500)(1 left 80))
    (notify=(topic a.b)(on end)(command /bin/told "a b" ""))
    (&(executable="/bin/x y")(arguments=a "b c" "" "--" "a\"\"b" "'" "$(X)" "(*)" "é\n")
      (directory=/home)(environment=(A b)(_c1 "d\"\"e")(EMPTY ""))(stdin=in)(stdout="o u")
      (stderr=err)(count=8)(hostCount=2)(jobType=single)(resourceManagerContact=delft)(label=left)
      (subjobStartType=loose-barrier)(maxWallTime=10)(maxCpuTime=5)(minMemory=100)(maxMemory=200)
      (queue=short)(project=p1)(qos=high)(reservation=r1)(tasksPerNode=4)(gpus=3)(gpuType=a100)
      (cpusPerTask=2)(constraint="[a|b]*2")(licenses=matlab (a.b@c 2))(exclusive=yes)
      (native="-l 'a b=1'")
      (outputFile=a.dat "logs/b c")(stage=yes)(outputs="run/*.[c]")(rate=0.5)(resizeSignal=USR1)
      (ports=DB:5432 A_1:1)(inputs=g (h/i 2M)))
    (&(executable=b)(label="right 'é")(sites=delft vu)(jobType=mpi)(stage=code "x y"))""",
    "&(executable=a)(totalCount=24)(minCount=4)(maxCount=12)(maxComponents=5)",
    "&(executable=a)(totalCount=24)(malleable=yes)(minTotalCount=2)(progress=free)",
    "&(executable=a)(deadline=2030-01-01T00:00:00.5Z)(inputFile=f)(inputMode=chunk)(hint=cpu)",
    "&(executable=a)(maxTime=90)(count=1000)(subjobStartType=no-barrier)(priority=low)",
)
"""Jobs that together have every attribute of a job."""
