"""Records are exchanged: no public function takes or returns a dictionary of anything."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.tidy.sources import Module, is_within, module_of, shipped_modules

ROOMS = ("koala.views", "koala.daemon", "koala.client", "koala.cli", "koala.web")
MADE_PLAIN = "koala.views.records.base"
"""Records become plain values there alone. What another program decides is in has a type of its
own (`NewType`), and what nobody reads is `object`."""
UNTYPED = re.compile(r"\b(?:[dD]ict|(?:Mutable)?Mapping)\[str, (?:typing\.)?Any\]")


def untyped(module: Module) -> Iterator[str]:
    """Find public functions that take or return dictionaries of anything, and names for these."""
    if not UNTYPED.search(module.text):
        return
    for node in module.tree.body:
        match node:
            case (
                ast.AnnAssign(value=ast.Subscript() as value)
                | ast.Assign(value=ast.Subscript() as value)
            ) if UNTYPED.search(ast.unparse(value)):
                yield f"{module.at(node)}: a name for a dictionary of anything"
            case ast.ClassDef(name=name) if not name.startswith("_"):
                for inner in node.body:
                    yield from _function(module, inner)
            case _:
                yield from _function(module, node)


def _function(module: Module, node: ast.stmt) -> Iterator[str]:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
        return
    given = node.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    hints = [node.returns, *(one.annotation for one in arguments)]
    if any(hint is not None and UNTYPED.search(ast.unparse(hint)) for hint in hints):
        yield f"{module.at(node)}: {node.name} takes or returns a dictionary of anything"


def test_functions_exchange_records() -> None:
    modules = [one for one in shipped_modules() if is_within(one.name, *ROOMS)]
    assert len(modules) > 100
    found = [one for module in modules if module.name != MADE_PLAIN for one in untyped(module)]
    assert found == []


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("def show(job: dict[str, Any]) -> str: ...", True),
        ("async def jobs() -> list[dict[str, Any]]: ...", True),
        ("class A:\n    def show(self, *, job: Mapping[str, Any] | None) -> str: ...", True),
        ("Document: TypeAlias = Mapping[str, Any]", True),
        ("Document = dict[str, Any]", True),
        ("def _row(job: dict[str, Any]) -> str: ...", False),
        ("def show(names: Mapping[str, object]) -> dict[str, int]: ...", False),
        ('PastRun = NewType("PastRun", dict[str, Any])', False),
    ],
)
def test_a_dictionary_of_anything_is_found(text: str, is_found: bool) -> None:
    assert bool(list(untyped(module_of(text)))) is is_found
