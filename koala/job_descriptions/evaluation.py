"""Evaluation: every variable reference and concatenation becomes a literal.

One walk, left to right, depth first, as in the C library. Rules:

- Every compound request opens a scope that ends with it.
- Definitions (`rsl_substitution`) are visible to what follows them.
- The first definition of a name in a scope wins; an inner scope hides the outer.
- Definitions from outside form the outermost scope. A text that is a single relation opens none, so
  there they win over its own.
- A default counts when the name is not defined (the library cannot evaluate it at all).
- A reference to an undefined name without a default is an error.
- The text of a definition is not scanned again.

The relations that define stay in the tree, with evaluated values. Nothing recurses. References may
produce a limited number of characters (`PRODUCED_CHARACTERS_MAX`): twenty definitions that double
one another must not fill the memory.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum, auto
from itertools import islice
from typing import TypeAlias, cast

from msgspec.structs import replace as changed

from koala.errors import SpecError
from koala.job_descriptions.tree import (
    AnyNode,
    Compound,
    Concatenation,
    Literal,
    Relation,
    Sequence,
    Source,
    Specification,
    Tree,
    Value,
    Variable,
)

PRODUCED_CHARACTERS_MAX = 4 * 1024 * 1024
"""Limit on the characters that references and concatenations put into one tree."""

OF_GRAM = ("HOME", "LOGNAME", "GLOBUS_LOCATION", "GLOBUS_ID", "GLOBUSRUN_GASS_URL")
"""Variables that GRAM 2 and 5 define by themselves."""

COMPARED_NAMES_MAX = 1000
COMPARED_CHARACTERS_MAX = 80


def canonical_name(attribute: str) -> str:
    """Return the canonical form of an attribute name: without case and underscores (as in GRAM
    5)."""
    return attribute.replace("_", "").lower()


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """Return the names most like `name`, best first; the work is bounded for any names."""
    cut = [n[:COMPARED_CHARACTERS_MAX] for n in islice(names, COMPARED_NAMES_MAX)]
    return difflib.get_close_matches(name[:COMPARED_CHARACTERS_MAX], cut, n=3, cutoff=0.5)


def is_definition(attribute: str) -> bool:
    """True for `rsl_substitution` and `rslSubstitution`, in any case."""
    return attribute.lower() in ("rsl_substitution", "rslsubstitution")


def evaluate(tree: Tree, definitions: Mapping[str, str] | None = None) -> Tree:
    """Return the tree with only literals and sequences as values. Raises SpecError with the
    position."""
    checked = {_clean(name): _clean(value) for name, value in (definitions or {}).items()}
    if _is_evaluated(tree.source.text):
        return tree
    evaluation = _Evaluation(tree.source, checked)
    root = evaluation.run(tree.root)
    assert isinstance(root, Relation | Compound)
    return replace(tree, root=root)


def _is_evaluated(text: str) -> bool:
    """True for a text without references, concatenations and definitions: most have none."""
    return text != "" and "$" not in text and "#" not in text and "substitution" not in text.lower()


def _clean(text: str) -> str:
    """Check a name or value from outside by the rules of the text: no NUL, no lone surrogates."""
    return Source.of(text).text


class _Step(Enum):
    VISIT = auto()
    JOIN = auto()
    SEQUENCE = auto()
    RELATION = auto()
    DEFINE = auto()
    COMPOUND = auto()


_Work: TypeAlias = tuple[_Step, AnyNode]


class _Evaluation:
    """Stacks of pending work and of results, and the definitions in scope."""

    def __init__(self, source: Source, definitions: Mapping[str, str]) -> None:
        self._source = source
        self._work: list[_Work] = []
        self._results: list[AnyNode] = []
        self._bindings: dict[str, list[tuple[int, str]]] = {}  # name: (depth of scope, value)
        self._scopes: list[list[str]] = [[]]  # names bound in each open scope
        self._produced_characters = 0
        for name, value in definitions.items():
            self._bind(name, value)

    def run(self, root: Specification) -> AnyNode:
        """Carry out steps until none is left."""
        self._work.append((_Step.VISIT, root))
        while self._work:
            step, node = self._work.pop()
            if step is _Step.VISIT:
                self._visit(node)
            else:
                self._finish(step, node)
        return self._results.pop()

    def _visit(self, node: AnyNode) -> None:
        """Push the steps that a node needs, last one first."""
        match node:
            case Variable():
                self._refer(node)
            case Concatenation(parts=parts):
                self._visit_all(_Step.JOIN, node, parts)
            case Sequence(values=values):
                self._visit_all(_Step.SEQUENCE, node, values)
            case Relation(attribute=attribute, values=values):
                if is_definition(attribute):
                    self._work.append((_Step.RELATION, node))
                    for value in reversed(values):
                        self._work += ((_Step.DEFINE, value), (_Step.VISIT, value))
                else:
                    self._visit_all(_Step.RELATION, node, values)
            case Compound(operands=operands):
                self._scopes.append([])
                self._visit_all(_Step.COMPOUND, node, operands)
            case Literal():
                self._results.append(node)

    def _visit_all(self, step: _Step, node: AnyNode, children: tuple[AnyNode, ...]) -> None:
        self._work.append((step, node))
        self._work.extend([(_Step.VISIT, child) for child in reversed(children)])

    def _finish(self, step: _Step, node: AnyNode) -> None:
        """Build a node's result from its children's results."""
        if step is _Step.DEFINE:
            self._define(node)
        elif isinstance(node, Concatenation):
            text = "".join(part.text for part in self._take_literals(len(node.parts)))
            self._results.append(self._produced(text, node.offset))
        elif isinstance(node, Sequence | Relation):
            values = self._take(len(node.values))  # their kinds follow from the node's
            self._results.append(changed(node, values=cast("tuple[Value, ...]", values)))
        else:
            assert isinstance(node, Compound)
            for name in self._scopes.pop():
                self._bindings[name].pop()
            operands = cast("tuple[Specification, ...]", self._take(len(node.operands)))
            self._results.append(changed(node, operands=operands))

    def _take(self, count: int) -> tuple[AnyNode, ...]:
        taken = tuple(self._results[-count:])
        del self._results[-count:]
        return taken

    def _take_literals(self, count: int) -> list[Literal]:
        return [part for part in self._take(count) if isinstance(part, Literal)]

    def _produced(self, text: str, offset: int) -> Literal:
        self._produced_characters += len(text)
        if self._produced_characters > PRODUCED_CHARACTERS_MAX:
            message = (
                f"the variables of this text produce more than {PRODUCED_CHARACTERS_MAX} "
                "characters, which is the limit"
            )
            raise self._source.error(message, offset)
        return Literal(text=text, offset=offset)

    # Names

    def _bind(self, name: str, value: str) -> None:
        """Bind a name; the first definition in a scope wins."""
        depth = len(self._scopes)
        bound = self._bindings.setdefault(name, [])
        if not bound or bound[-1][0] < depth:
            bound.append((depth, value))
            self._scopes[-1].append(name)

    def _refer(self, node: Variable) -> None:
        if bound := self._bindings.get(node.name):
            self._results.append(self._produced(bound[-1][1], node.offset))
        elif node.default is not None:
            self._work.append((_Step.VISIT, node.default))
        else:
            raise self._undefined(node)

    def _define(self, node: AnyNode) -> None:
        """Bind the definition in the newest result: (NAME value)."""
        pair = self._results[-1]
        match pair:
            case Sequence(values=(Literal(text=name), Literal(text=value))):
                self._bind(name, value)
            case _:
                message = (
                    "found a definition of another form, expected (NAME value) with a simple "
                    "value: (rsl_substitution=(NAME value)(NAME2 value2))"
                )
                raise self._source.error(message, node.offset)

    def _undefined(self, node: Variable) -> SpecError:
        names = sorted(name for name, bound in self._bindings.items() if bound)
        near = nearest(node.name, names) or names[:3]
        known = "no variable is defined here"
        if near:
            which = "nearest defined" if len(near) < len(names) else "defined here"
            known = f"{which}: {', '.join(map(repr, near))}"
        if node.name in OF_GRAM:
            known = (
                "GRAM defined it at the site, where a program finds HOME and LOGNAME in its"
                f" environment; define it with -D {node.name}=VALUE, or"
                f" (rsl_substitution=({node.name} VALUE))"
            )
        message = f"the variable {node.name[:80]!r} is not defined; {known}"
        return self._source.error(message, node.offset)
