"""Lexer of RSL 1.0 with the Globus C library's tokens; docs/rsl.md lists the differences.

White space is space, TAB, LF, and CR directly before LF. Any other CR outside quotes is an error,
so that no value carries one unseen. A comment `(* ... *)` equals white space. FF and VT are literal
characters. One pass uses one compiled expression for all but quotes and comments, whose ends are
found by searching. So the time is linear in the length of the text.

Most of a job is relations of plain literals, `(count = 4)`, and the `(&` before the first of a
component. `Lexer.relation` reads such a relation as one piece, at an eighth of the time of its
tokens; all else is read token by token.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from koala.errors import SpecError
from koala.job_descriptions.tree import Literal, Operator, Relation, Source

SHOWN_CHARACTERS_MAX = 40


class Kind(StrEnum):
    """Kind of a token; the values are the group names of the expression below."""

    UNQUOTED = "unquoted"
    QUOTED = "quoted"
    OPEN = "open"
    CLOSE = "close"
    OPERATOR = "operator"
    CONNECTIVE = "connective"
    HASH = "hash"
    DOLLAR = "dollar"
    END = "end"


class Token(NamedTuple):
    """A piece of the text. `text` is a literal's value, else the text itself."""

    kind: Kind
    text: str
    offset: int
    is_adjacent: bool  # nothing at all, not even a comment, between it and the token before it

    def shown(self) -> str:
        """Format the token for an error message."""
        if self.kind is Kind.END:
            return "the end of the text"
        cut = self.text[:SHOWN_CHARACTERS_MAX] + "..." * (len(self.text) > SHOWN_CHARACTERS_MAX)
        if self.kind is Kind.QUOTED:
            return f"the quoted literal {cut!r}"
        return f"the literal {cut!r}" if self.kind is Kind.UNQUOTED else f"`{self.text}`"


_NEVER_UNQUOTED = r""" \t\n\r()=<>!"'^\#$*?~"""
_TOKEN = re.compile(
    rf"""[ \t\n]*(?:
      (?P<unquoted>[^{_NEVER_UNQUOTED}+&|][^{_NEVER_UNQUOTED}]*)
    | (?P<open>\((?!\*))
    | (?P<close>\))
    | (?P<quoted>["'] | \^(?s:.))
    | (?P<operator>[!<>]=|[=<>])
    | (?P<connective>[&|+])
    | (?P<hash>\#)
    | (?P<dollar>\$)
    | (?P<skipped>\(\*|\r\n)
    | (?P<end>\Z)
    )""",
    # The class has a leading blank of its own; VERBOSE leaves white space inside classes alone.
    re.VERBOSE,
)
_KINDS = {kind.value: kind for kind in Kind}


_LITERAL = rf"""[^{_NEVER_UNQUOTED}+&|][^{_NEVER_UNQUOTED}]*+"""
_PLAIN = rf"""{_LITERAL}|"[^"]*+"(?!")|'[^']*+'(?!')"""
_RELATION = re.compile(
    rf"""[ \t\n]*+(?P<opened>\([ \t\n]*+&[ \t\n]*+)?+
    \([ \t\n]*+(?P<attribute>{_LITERAL})[ \t\n]*+=[ \t\n]*+
    (?:(?P<only>{_PLAIN})|(?P<values>(?:(?:{_PLAIN})[ \t\n]*+)++))\)""",
    re.VERBOSE,
)
"""A whole relation of plain literals, of one, as most are, or of any, and the `(&` before it.
Possessive throughout, so the time is linear."""
_VALUE = re.compile(_PLAIN)
_TOKENS_AROUND = 4  # of a relation: its parentheses, the attribute and the operator
_TOKENS_OPENED = 2


class Lexer:
    """Reads a text from its beginning; `read` counts the tokens so far."""

    __slots__ = ("_end_of_last", "_position", "_source", "read")

    def __init__(self, source: Source) -> None:
        self._source = source
        self._position = 0
        self._end_of_last = 0
        self.read = 0

    def token(self) -> Token:
        """Read the next token; the last is END. Raises SpecError where none begins."""
        source, position = self._source, self._position
        while True:
            match = _TOKEN.match(source.text, position)
            if match is None:
                raise _no_token(source, position)
            group = match.lastgroup
            assert group is not None
            start, position = match.span(group)
            if group == "skipped":
                if source.text[start] == "(":
                    position = _end_of_comment(source, start)
                continue
            value = match[group]
            if group == "quoted":
                value, position = _quoted(source, start, value[-1], position)
            token = Token(_KINDS[group], value, start, start == self._end_of_last)
            self._position = self._end_of_last = position
            self.read += 1
            return token

    def relation(self) -> tuple[Relation, int | None] | None:
        """Read a relation of plain literals in its parentheses, and the `(&` before it if there is
        one; None where something else is. Return it, and the offset of the `&`."""
        text = self._source.text
        match = _RELATION.match(text, self._position)
        if match is None:
            return None
        self._position = self._end_of_last = match.end()
        opened, attribute, only, _ = match.groups()
        if only is not None:
            values: tuple[Literal, ...] = (_plain(only, match.start("only")),)
        else:
            spans = _VALUE.finditer(text, *match.span("values"))
            values = tuple([_plain(value[0], value.start()) for value in spans])
        relation = Relation(
            attribute=attribute,
            operator=Operator.EQ,
            values=values,
            offset=match.start("attribute"),
        )
        self.read += _TOKENS_AROUND + len(values)
        if opened is None:
            return relation, None
        self.read += _TOKENS_OPENED
        return relation, text.index("&", match.start())


def _plain(text: str, offset: int) -> Literal:
    """Return a literal that is quoted, with no quote inside, or unquoted."""
    return Literal(text=text[1:-1] if text[0] in "\"'" else text, offset=offset)


def _quoted(source: Source, start: int, delimiter: str, position: int) -> tuple[str, int]:
    """Return the value of a quoted literal and the offset behind it; a doubled delimiter is one."""
    text = source.text
    end = text.find(delimiter, position)
    while end >= 0 and text.startswith(delimiter, end + 1):
        end = text.find(delimiter, end + 2)
    if end < 0:
        message = f"the quoted literal that begins here is never closed: expected {delimiter!r}"
        raise source.error(message, start)
    return text[position:end].replace(delimiter * 2, delimiter), end + 1


def _end_of_comment(source: Source, start: int) -> int:
    end = source.text.find("*)", start + 2)
    if end < 0:
        raise source.error("the comment that begins here is never closed: expected `*)`", start)
    return end + 2


def _no_token(source: Source, position: int) -> SpecError:
    """Report a character at which no token can begin, and suggest a remedy."""
    while position < len(source.text) and source.text[position] in " \t\n":
        position += 1
    character = source.text[position]
    if character == "\r":
        message = (
            "found a carriage return (CR) that no line feed (LF) follows, expected CR only in CR "
            "LF line ends and inside quotes"
        )
    elif character == "^":
        message = "found `^` at the end of the text, expected a delimiter and quoted text after it"
    elif character == "!":
        message = "found `!` without `=` directly after it, expected the operator `!=`"
    else:
        message = f"found `{character}`, which an unquoted literal cannot hold: put it in quotes"
    return source.error(message, position)
