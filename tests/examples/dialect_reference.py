"""Writes the last section of docs/development/add-a-batch-system.md, from the code that a dialect
uses: `python -m tests.examples.dialect_reference`."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from types import ModuleType

import koala.errors
import koala_agent.lrm.dialect
import koala_agent.lrm.local_manager
import koala_agent.transport.interface
from tests.examples.toy import PAGE

HEAD = """## Reference

Written by `python -m tests.examples.dialect_reference` from the code; a test compares the two.
"""
WIDTH = 100
SHOWN: dict[ModuleType, tuple[str, ...]] = {
    koala_agent.lrm.dialect: (
        "Dialect",
        "BatchJob",
        "JobState",
        "Figures",
        "Question",
        "QueueRow",
        "Gate",
        "user_hold",
        "submitted_number",
        "check_status",
        "read_json",
        "is_count",
        "with_output",
    ),
    koala_agent.lrm.local_manager: ("EndCause", "Placeholder", "RequestRefusedError"),
    koala_agent.transport.interface: ("Command", "Answer"),
    koala.errors: ("LocalManagerError",),
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def reference() -> str:
    """Make the section."""
    parts = [HEAD]
    for module, names in SHOWN.items():
        nodes = {
            node.name: node
            for node in ast.parse(inspect.getsource(module)).body
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
        }
        shown = "\n\n".join("\n".join(_described(nodes[name])).rstrip() for name in names)
        parts.append(f"`{module.__name__}`:\n\n```text\n{shown}\n```\n")
    return "\n".join(parts)


def written(page: str) -> str:
    """Return the page with its last section as the code has it now."""
    return page.partition(HEAD.splitlines()[0])[0] + reference()


def _described(node: ast.ClassDef | Function) -> Iterator[str]:
    if isinstance(node, Function):
        yield from _function(node)
        return
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    yield f"class {node.name}({bases})" if bases else f"class {node.name}"
    yield from _paragraphs(ast.get_docstring(node))
    yield ""
    for one, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(one, Function) and one.name == "__init__":
            yield f"    {node.name}({_arguments(one)})"
        elif isinstance(one, Function):
            yield from (f"    {line}" for line in _function(one))
        elif isinstance(one, ast.AnnAssign | ast.Assign):
            yield f"    {ast.unparse(one)}"
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                yield from (f"    {line}" for line in _paragraphs(after.value.value))


def _function(node: Function) -> Iterator[str]:
    """Describe a function, or a method as it is called."""
    returned = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    if any(ast.unparse(one) == "property" for one in node.decorator_list):
        yield f"{node.name}{returned}"
    else:
        yield f"{node.name}({_arguments(node)}){returned}"
    yield from _paragraphs(ast.get_docstring(node))


def _arguments(node: Function) -> str:
    return ast.unparse(node.args).removeprefix("self").removeprefix(", ")


def _paragraphs(text: object) -> Iterator[str]:
    for paragraph in inspect.cleandoc(str(text or "")).split("\n\n"):
        for item in paragraph.replace("\n- ", "\n\0- ").split("\0"):
            yield from textwrap.wrap(
                " ".join(item.split()),
                WIDTH - 8,
                initial_indent="    ",
                subsequent_indent="    ",
                break_on_hyphens=False,
            )


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
