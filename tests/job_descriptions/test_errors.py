"""Messages about wrong texts: what was found, what was expected, and a caret."""

from __future__ import annotations

import pytest

from koala.errors import SpecError
from koala.job_descriptions import evaluate, parse

MESSAGES = [
    (
        "&(count=4)(executable)",
        "line 1, column 22: found `)`, expected = != < <= > or >= after the attribute "
        "'executable'\n"
        "&(count=4)(executable)\n"
        "                     ^",
    ),
    (
        "&\n (count=4)\n (directory=~/x)\n",
        "line 3, column 13: found `~`, which an unquoted literal cannot hold: put it in quotes\n"
        " (directory=~/x)\n"
        "            ^",
    ),
    (
        "(count=4)",
        "line 1, column 1: found `(`, expected `&`, `|` or `+` with clauses, or an attribute name "
        "(a relation in parentheses cannot stand as the whole text without `&` before it)\n"
        "(count=4)\n"
        "^",
    ),
    (
        "&(count=4)\r\n(a=b\rc)",
        "line 2, column 5: found a carriage return (CR) that no line feed (LF) follows, expected "
        "CR only in CR LF line ends and inside quotes\n"
        "(a=b c)\n"
        "    ^",
    ),
    (
        "&(a='it''s)\r\n(c=d)",
        'line 1, column 5: the quoted literal that begins here is never closed: expected "\'"\n'
        "&(a='it''s)\n"
        "    ^",
    ),
    (
        "&(a=b) (* note",
        "line 1, column 8: the comment that begins here is never closed: expected `*)`\n"
        "&(a=b) (* note\n"
        "       ^",
    ),
    (
        "&(a=(b c)",
        "line 1, column 10: found the end of the text, expected a value or `)` to close the "
        "clause\n"
        "&(a=(b c)\n"
        "         ^",
    ),
    (
        "&(a=(b\n c",
        "line 2, column 3: found the end of the text, expected a value or `)` to close the "
        "sequence opened at line 1, column 5\n"
        " c\n"
        "  ^",
    ),
    (
        "&(a=)",
        "line 1, column 5: found `)`, expected a value for 'a' (the empty string is written \"\")\n"
        "&(a=)\n"
        "    ^",
    ),
    (
        "&(é=b)(deadline=+90)",
        "line 1, column 17: found `+`, expected a value for 'deadline' (the empty string is "
        'written "") (a literal that begins with + must be in quotes)\n'
        "&(é=b)(deadline=+90)\n"
        "                ^",
    ),
    (
        "a=$X",
        "line 1, column 4: found the literal 'X', expected `(` after `$`: a reference is written "
        "$(NAME)\n"
        "a=$X\n"
        "   ^",
    ),
    (
        "&(a=b)&(c=d)",
        "line 1, column 7: found `&`, expected `(` or the end of the text\n&(a=b)&(c=d)\n      ^",
    ),
]


@pytest.mark.parametrize(("text", "message"), MESSAGES)
def test_a_syntax_error_says_what_was_found_and_expected(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_bytes_that_are_not_utf_8_are_refused_with_their_position() -> None:
    with pytest.raises(SpecError) as caught:
        parse("&(a=b)\n(é=".encode() + b"\xff)\n")
    assert str(caught.value) == (
        "line 2, column 4: found the byte 0xff, expected UTF-8 text\n(é=\ufffd)\n   ^"
    )


def test_an_undefined_variable_is_named_with_those_that_are_like_it() -> None:
    tree = parse("&(rsl_substitution=(BINDIR /bin)(HOME /h))\n (executable=$(BINDR)/x)")
    with pytest.raises(SpecError) as caught:
        evaluate(tree, {"SCRATCH": "/s"})
    assert str(caught.value) == (
        "line 2, column 14: the variable 'BINDR' is not defined; nearest defined: 'BINDIR'\n"
        " (executable=$(BINDR)/x)\n"
        "             ^"
    )
