"""Source of the starter for interpreters of compute nodes, from Python 3.6 on.

The modules of the starter use no function and no syntax that is newer than 3.6, but annotations,
which a type checker reads as those of our own Python. So annotations are removed on the way, with
comments, docstrings and imports for type checkers. Annotations of classes become texts, as
`from __future__ import annotations` makes them from 3.7 on: the starter's `dataclass` and
`read_fields` read them. Indentation is one space and blank lines go, because batch systems limit a
script's size.
"""

from __future__ import annotations

import ast
import re
from typing import Any


def portable(text: str) -> str:
    """Return a module without comments, docstrings and annotations, and with little white space.

    That would change a string of several lines; the starter has none (tested).
    """
    return compact(without_annotations(text))


def without_annotations(text: str) -> str:
    """Return a module without comments, docstrings and annotations."""
    return ast.unparse(ast.fix_missing_locations(_Portable().visit(ast.parse(text))))


def compact(text: str) -> str:
    """Return a module without blank lines, indented by one space in place of four."""
    text = re.sub(r"\n{2,}", "\n", text)
    return re.sub(r"(?m)^(?: {4})+", lambda indent: " " * (len(indent[0]) // 4), text)


class _Portable(ast.NodeTransformer):
    """Remover of what a program does not need to run."""

    def __init__(self) -> None:
        self._fields: set[ast.AnnAssign] = set()

    def visit(self, node: ast.AST) -> Any:  # noqa: ANN401 - as it is declared there
        """Visit a node, after its docstring is removed."""
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            node.body = node.body[1:] or [ast.Pass()]
        return super().visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """Remove the docstring of a constant or a field, which follows it."""
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        """Remove the constant with which imports for type checkers are marked."""
        is_mark = ast.unparse(node) == "TYPE_CHECKING = False"
        return None if is_mark else self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Keep the fields of a class; their annotations are texts then."""
        fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
        for field in fields:
            field.annotation = ast.Constant(ast.unparse(field.annotation))
        self._fields.update(fields)
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Make an assignment of an annotated one, or nothing where it assigns nothing."""
        if node in self._fields:
            return node
        if node.value is None:
            return ast.Pass()
        return self.generic_visit(ast.Assign([node.target], node.value))

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        """Remove what only a type checker reads."""
        self.generic_visit(node)
        is_for_checkers = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return node.orelse if is_for_checkers else node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return None if node.module == "__future__" else node
