"""The tree of a parsed RSL text, and its canonical JSON.

    Specification   Compound   &, | or + over clauses
                    Relation   attribute, operator, values
    Value           Sequence   ( ... )
                    Literal    text, quoted or not
                    Variable   $(NAME) or $(NAME DEFAULT)
                    Concatenation   two or more literals and variables, with # or side by side

A text of a megabyte may be nested half a million deep, so nothing here recurses: not equality,
hash, `repr`, nor the JSON writer. Two nodes are equal when their canonical JSON is; where they
stand in the text (`offset`, in characters from 0) does not count.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice, zip_longest
from typing import TypeAlias

import msgspec

from koala.errors import Position, SpecError

REPR_PIECES_MAX = 24


class Connective(StrEnum):
    """Connective of the clauses of a compound request."""

    AND = "&"
    OR = "|"
    MULTI = "+"


class Operator(StrEnum):
    """Operator between an attribute and its values."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


class Node(msgspec.Struct, frozen=True, eq=False):
    """Base of all nodes: equality, hash and `repr` by canonical JSON and without recursion.

    They are made quickly: there are some forty of a job of three components.
    """

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Node):
            return NotImplemented
        assert isinstance(self, AnyNode)
        assert isinstance(other, AnyNode)
        if self is other:
            return True
        pairs = zip_longest(canonical_pieces(self), canonical_pieces(other))
        return all(mine == theirs for mine, theirs in pairs)

    def __hash__(self) -> int:
        assert isinstance(self, AnyNode)
        return hash("".join(canonical_pieces(self)))

    def __repr__(self) -> str:
        assert isinstance(self, AnyNode)
        pieces = list(islice(canonical_pieces(self), REPR_PIECES_MAX + 1))
        more = " ..." if len(pieces) > REPR_PIECES_MAX else ""
        return f"{type(self).__name__}({''.join(pieces[:REPR_PIECES_MAX])}{more})"


class Literal(Node, frozen=True, eq=False, kw_only=True):
    """One string, without its quotes."""

    text: str
    offset: int = 0


class Variable(Node, frozen=True, eq=False, kw_only=True):
    """A variable reference; the default counts when the name is not defined."""

    name: str
    default: Simple | None = None
    offset: int = 0


class Concatenation(Node, frozen=True, eq=False, kw_only=True):
    """At least two parts; `a#b#c` is right-associative, which a flat tuple says as well."""

    parts: tuple[Literal | Variable, ...]
    offset: int = 0


class Sequence(Node, frozen=True, eq=False, kw_only=True):
    """At least one value in parentheses."""

    values: tuple[Value, ...]
    offset: int = 0


class Relation(Node, frozen=True, eq=False, kw_only=True):
    """An attribute, an operator and at least one value."""

    attribute: str
    operator: Operator
    values: tuple[Value, ...]
    offset: int = 0


class Compound(Node, frozen=True, eq=False, kw_only=True):
    """At least one clause under `&`, `|` or `+`."""

    connective: Connective
    operands: tuple[Specification, ...]
    offset: int = 0


Simple: TypeAlias = Literal | Variable | Concatenation
Value: TypeAlias = Simple | Sequence
Specification: TypeAlias = Relation | Compound
AnyNode: TypeAlias = Value | Specification


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The text of a tree; turns offsets into lines and columns."""

    text: str = ""

    @classmethod
    def of(cls, text: str | bytes) -> Source:
        """Decode UTF-8, and refuse what no RSL text may hold; NUL ends a text of the C library."""
        if isinstance(text, bytes):
            text = _decoded(text)
        source = cls(text=text)
        if (offset := text.find("\0")) >= 0:
            raise source.error("found a NUL character, which no RSL text may hold", offset)
        try:
            text.encode()
        except UnicodeEncodeError as error:
            message = f"found {text[error.start]!a}, which is half a character (a lone surrogate)"
            raise source.error(message, error.start) from None
        return source

    def position(self, offset: int) -> Position | None:
        """Return line and column (counted from 1, in characters) of an offset; None without a
        text."""
        if not self.text:
            return Position(line=1, column=1) if offset == 0 else None
        start = self.text.rfind("\n", 0, offset) + 1
        end = self.text.find("\n", offset)
        line = self.text[start:] if end < 0 else self.text[start:end]
        return Position(
            line=self.text.count("\n", 0, offset) + 1,
            column=offset - start + 1,
            source=line.removesuffix("\r"),
        )

    def error(self, message: str, offset: int) -> SpecError:
        """Return an error that points at `offset`."""
        return SpecError(message, self.position(offset))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A whole text: its specification, and the text for positions in later errors."""

    root: Specification
    source: Source = field(default=Source(), compare=False, repr=False)


def _decoded(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        before = text[: error.start].decode()
        end = text.find(b"\n", error.start)
        rest = text[error.start :] if end < 0 else text[error.start : end]
        source = Source(text=before + rest.decode(errors="replace"))
        message = f"found the byte 0x{text[error.start]:02x}, expected UTF-8 text"
        raise source.error(message, len(before)) from None


def canonical_json(tree: Tree | AnyNode) -> str:
    """The canonical tree as JSON on one line, in ASCII (other characters as \\uXXXX).

    It is nested as deeply as the text: `json.loads` of Python stops near 1,000 levels.
    """
    return "".join(canonical_pieces(tree.root if isinstance(tree, Tree) else tree))


def canonical_pieces(node: AnyNode) -> Iterator[str]:
    """Generate canonical JSON in pieces; the stack holds pending output, next one last."""
    stack: list[str | AnyNode] = [node]
    while stack:
        top = stack.pop()
        if isinstance(top, str):
            yield top
        elif isinstance(top, Literal):
            yield json.dumps(top.text)
        else:
            stack.extend(reversed(_opened(top)))


def _opened(node: AnyNode) -> list[str | AnyNode]:
    """Expand one node to JSON text with its children still as nodes."""
    match node:
        case Literal(text=text):
            return [json.dumps(text)]
        case Variable(name=name, default=default):
            if default is None:
                return [f'{{"var": {json.dumps(name)}}}']
            return [f'{{"var": {json.dumps(name)}, "default": ', default, "}"]
        case Concatenation(parts=parts):
            pieces: list[str | AnyNode] = []
            for part in parts[:-1]:
                pieces += ('{"cat": [', part, ", ")
            return [*pieces, parts[-1], "]}" * (len(parts) - 1)]
        case Sequence(values=values):
            return ['{"seq": [', *_listed(values), "]}"]
        case Relation(attribute=attribute, operator=operator, values=values):
            head = f'{{"attr": {json.dumps(attribute)}, "op": "{operator}", "values": ['
            return [head, *_listed(values), "]}"]
        case Compound(connective=connective, operands=operands):
            return [f'{{"bool": "{connective}", "operands": [', *_listed(operands), "]}"]


def _listed(nodes: tuple[AnyNode, ...]) -> list[str | AnyNode]:
    pieces: list[str | AnyNode] = [nodes[0]]
    for node in nodes[1:]:
        pieces += (", ", node)
    return pieces
