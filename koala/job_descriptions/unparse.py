"""From a tree back to RSL text that parses to the same tree, in a compact and a pretty form.

Compact: `+(&(count=4)(executable=$(BIN)/x))(&(count=2))`; one line unless a literal has a LF.
Pretty: one clause on a line, clauses of nested requests further to the right:

    +(&(count=4)
       (executable=$(BIN)/x))
     (&(count=2))

Literals are quoted only where they must be. A text never ends in a quote, because the C library
drops a quoted literal whose closing quote is the last byte: pretty text ends in a line feed, and
compact text gets a blank there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TypeAlias

from koala.job_descriptions.tree import (
    AnyNode,
    Compound,
    Concatenation,
    Literal,
    Relation,
    Sequence,
    Tree,
    Variable,
)

INDENT_MAX = 80
"""Deeper clauses are indented no further, so that the text grows linearly with the tree."""

_UNQUOTED = re.compile(r"""[^\s\x00-\x20\x7f()=<>!"'^#$*?~+&|][^\s\x00-\x20\x7f()=<>!"'^#$*?~]*""")


def unparse(tree: Tree | AnyNode, *, pretty: bool = False) -> str:
    """Format a tree or node as text that parses to the same tree."""
    root = tree.root if isinstance(tree, Tree) else tree
    text = "".join(_pieces(root, pretty=pretty))
    if pretty:
        return text + "\n"
    return text + " " if text.endswith(("'", '"')) else text


def quoted(text: str) -> str:
    """Format a literal as RSL text: bare if it can stand unquoted, else in double quotes."""
    if _UNQUOTED.fullmatch(text):
        return text
    return '"' + text.replace('"', '""') + '"'


_Item: TypeAlias = str | tuple[AnyNode, int]  # text, or a node and the column where it will stand


def _pieces(root: AnyNode, *, pretty: bool) -> Iterator[str]:
    """Generate the text in pieces; the stack holds pending output, next one last."""
    stack: list[_Item] = [(root, 0)]
    while stack:
        top = stack.pop()
        if isinstance(top, str):
            yield top
            continue
        stack.extend(reversed(_opened(*top, pretty=pretty)))


def _opened(node: AnyNode, column: int, *, pretty: bool) -> list[_Item]:
    """Expand one node to text with its children still as nodes."""
    match node:
        case Literal(text=text):
            return [quoted(text)]
        case Variable(name=name, default=default):
            if default is None:
                return [f"$({quoted(name)})"]
            return [f"$({quoted(name)} ", (default, column), ")"]
        case Concatenation(parts=parts):
            return _joined(parts, column)
        case Sequence(values=values):
            return ["(", *_spaced(values, column), ")"]
        case Relation(attribute=attribute, operator=operator, values=values):
            return [f"{quoted(attribute)}{operator}", *_spaced(values, column)]
        case Compound(connective=connective, operands=operands):
            return _clauses(connective, operands, column, pretty=pretty)


def _spaced(values: tuple[AnyNode, ...], column: int) -> list[_Item]:
    """Put a blank between two values, except between two sequences: (A a)(B b)."""
    items: list[_Item] = [(values[0], column)]
    for before, after in pairwise(values):
        if not (isinstance(before, Sequence) and isinstance(after, Sequence)):
            items.append(" ")
        items.append((after, column))
    return items


def _joined(parts: tuple[Literal | Variable, ...], column: int) -> list[_Item]:
    """Join parts side by side where that concatenates (a variable and a variable or bare literal),
    or by `#`."""
    items: list[_Item] = [(parts[0], column)]
    for before, after in pairwise(parts):
        has_variable = isinstance(before, Variable) or isinstance(after, Variable)
        if not (has_variable and _is_bare(before, after)):
            items.append("#")
        items.append((after, column))
    return items


def _is_bare(*parts: Literal | Variable) -> bool:
    return all(isinstance(part, Variable) or _UNQUOTED.fullmatch(part.text) for part in parts)


def _clauses(
    connective: str, operands: tuple[AnyNode, ...], column: int, *, pretty: bool
) -> list[_Item]:
    indent = min(column + 1, INDENT_MAX)
    gap = "\n" + " " * indent if pretty else ""
    items: list[_Item] = [connective]
    for index, operand in enumerate(operands):
        items += (gap if index else "", "(", (operand, indent + 1), ")")
    return items
