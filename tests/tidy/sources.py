"""The project's own Python files, each parsed once at most, and what they import."""

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "koala" / "common" / "wire" / "v1"
IMPORT_ROOTS = {"koala": ROOT, "koala_agent": ROOT / "agents"}
OTHER_FOLDERS = ("tests", "proto", "examples", "docs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One source file: its import name, where it is, its text and its syntax tree."""

    name: str
    path: Path
    text: str

    @property
    def tree(self) -> ast.Module:
        """Parse the text the first time; a rule that looks at the text first saves that."""
        return _parsed(self)

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    def at(self, node: ast.AST) -> str:
        """`path:line`, as editors and people like it."""
        path = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path
        return f"{path}:{getattr(node, 'lineno', 1)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """That a module imports `target`; `is_late` inside a function or for type checkers only."""

    target: str
    node: ast.stmt
    is_late: bool


def module_of(text: str, *, name: str = "koala.example") -> Module:
    """A module that exists only in a test: the rules are tried on such."""
    return Module(name=name, path=Path(f"{name}.py"), text=text)


def shipped_files() -> dict[str, Path]:
    """The files of `koala` and `koala_agent` but the generated ones, by module, in that order."""
    found = {}
    for package, root in IMPORT_ROOTS.items():
        for path in (root / package).rglob("*.py"):
            if not path.is_relative_to(GENERATED):
                parts = path.relative_to(root).with_suffix("").parts
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return dict(sorted(found.items()))


@cache
def shipped_modules() -> tuple[Module, ...]:
    """All modules of `koala` and `koala_agent` but the generated ones, in order of their names."""
    found = tuple(_read(path, name=name) for name, path in shipped_files().items())
    with _lasting():
        for module in found:  # for their imports
            _parsed(module)
    return found


@cache
def other_modules() -> tuple[Module, ...]:
    """Tests, examples and scripts."""
    return tuple(
        _read(path, name=".".join(path.relative_to(ROOT).with_suffix("").parts))
        for folder in OTHER_FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
    )


@cache
def nodes(module: Module) -> tuple[ast.AST, ...]:
    """List all nodes of a module's syntax tree, which several rules go through."""
    return tuple(ast.walk(module.tree))


@cache
def imports(module: Module) -> tuple[Import, ...]:
    """All that a module imports, as full names; `from koala.core import job` is
    koala.core.model.job."""
    return tuple(_imports(module.tree, is_late=False))


def _imports(parent: ast.AST, *, is_late: bool) -> Iterator[Import]:
    for node in ast.iter_child_nodes(parent):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield Import(target=alias.name, node=node, is_late=is_late)
            case ast.ImportFrom(module=str(source), names=names, level=0):
                for alias in names:
                    target = _resolve(source, alias.name)
                    yield Import(target=target, node=node, is_late=is_late)
            case ast.stmt() | ast.ExceptHandler() | ast.match_case():
                yield from _imports(node, is_late=is_late or _is_late_block(node))
            case _:
                pass  # in an expression there is no import


def top_level(name: str) -> str:
    return name.partition(".")[0]


def is_within(name: str, *prefixes: str) -> bool:
    """True when `name` is one of the packages or modules, or lies in one."""
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


def dotted(node: ast.AST) -> str:
    """`a.b.c` of an expression that is such a name, else an empty text."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            base = dotted(value)
            return f"{base}.{attr}" if base else ""
        case _:
            return ""


@contextmanager
def _lasting() -> Iterator[None]:
    """Keep what is made: the garbage collector, pytest's at the end included, does not look again
    and again at millions of nodes of syntax trees."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _read(path: Path, *, name: str) -> Module:
    return Module(name=name, path=path, text=path.read_text(encoding="utf-8"))


@cache
def _parsed(module: Module) -> ast.Module:
    return ast.parse(module.text, filename=str(module.path))


def _is_late_block(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or (
        isinstance(node, ast.If) and dotted(node.test).endswith("TYPE_CHECKING")
    )


@cache
def _resolve(source: str, name: str) -> str:
    """A name imported from a package may be a module of its own."""
    root = IMPORT_ROOTS.get(top_level(source))
    if root is None:
        return source
    path = root.joinpath(*source.split("."), name)
    return f"{source}.{name}" if path.is_dir() or path.with_suffix(".py").exists() else source
