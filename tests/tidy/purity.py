"""Find in the syntax of pure code what it may not do: reach the world, or depend on the order of
sets.

It cannot prove purity. It finds what slips in by habit: an import for convenience, a clock, a draw
from the global generator, a loop over a set whose order changes with the hash seed.
"""

import ast
import sys
from collections.abc import Iterator
from itertools import chain

from tests.tidy.sources import Module, dotted, imports, is_within, nodes, top_level
from tests.tidy.words import CLOCKS

LINK_VALUES = (
    "koala.common.protocol.constraints",
    "koala.common.protocol.limits",
    "koala.common.protocol.messages",
    "koala.common.protocol.names",
    "koala.common.protocol.ordering",
    "koala.common.protocol.queue_limits",
    "koala.common.protocol.versions",
)
QUEUE_MODEL = "koala.queue_model"
PURE = ("koala.core", "koala.views", "koala.policies", *LINK_VALUES, QUEUE_MODEL)
PURE_MAY_IMPORT = (
    "koala.core",
    "koala.views",
    "koala.policies",
    "koala.errors",
    *LINK_VALUES,
    "koala.common.runtime.disk_formats",
    "koala.common.runtime.option_values",
)

STANDARD = {
    "__future__", "abc", "bisect", "collections", "contextlib", "copy", "dataclasses",
    "decimal", "difflib", "enum", "fractions", "functools", "hashlib", "heapq", "html",
    "itertools", "json", "math", "operator", "random", "re", "statistics", "string", "textwrap",
    "types", "typing", "zlib",
}  # fmt: skip
"""The modules of the standard library that neither read nor change the world."""
VIEWS = "koala.views"
VIEWS_MAY_IMPORT = STANDARD | {"datetime", "msgspec"}
"""Views also format days, and make records. The calls of `datetime` that read the clock are found
by name."""

KIT = "koala.policies.conformance"
"""A command that authors of policies run."""

OWN_FUNCTIONS = ("koala.common.runtime.plugins", "koala.common.runtime.foreign")
ORDERS = "koala.common.protocol.ordering"
REGISTRIES = (
    "koala.policies",
    "koala.policies.slots",
    "koala.queue_model.local_schedulers",
)
"""Only registries look for functions of other packages, and of users, and guard them."""

BUILTINS = {
    "open",
    "print",
    "input",
    "exec",
    "eval",
    "compile",
    "__import__",
    "breakpoint",
    "id",
    "hash",
}
ORDER_FREE = {"sorted", "set", "frozenset", "any", "all", "len", "min", "max"}
"""Calls whose result does not depend on the order of their argument."""
ORDERED = {
    "list",
    "tuple",
    "enumerate",
    "iter",
    "next",
    "sum",
    "zip",
    "map",
    "filter",
    "dict",
    "reversed",
}
SET_METHODS = {"union", "intersection", "difference", "symmetric_difference"}


def is_pure(module: Module) -> bool:
    return is_within(module.name, *PURE) and not is_within(module.name, KIT)


def impurities(module: Module) -> Iterator[str]:
    """Everything in a module that pure code may not do, with its place."""
    found = chain(_imports(module), _calls(module), _set_order(module), _state(module))
    for node, why in found:
        yield f"{module.at(node)}: {why}"


def _imports(module: Module) -> Iterator[tuple[ast.AST, str]]:
    for found in imports(module):
        if top_level(found.target) in ("koala", "koala_agent"):
            is_model = is_within(module.name, QUEUE_MODEL)
            may_import = (QUEUE_MODEL, ORDERS, "koala.errors") if is_model else PURE_MAY_IMPORT
            allowed = is_within(found.target, *may_import) or (
                module.name in REGISTRIES and is_within(found.target, *OWN_FUNCTIONS)
            )
        else:
            others = VIEWS_MAY_IMPORT if is_within(module.name, VIEWS) else STANDARD
            allowed = top_level(found.target) in others
        if not allowed:
            kind = "the world" if top_level(found.target) in sys.stdlib_module_names else "others"
            yield found.node, f"imports {found.target}, which belongs to {kind}"


def _calls(module: Module) -> Iterator[tuple[ast.AST, str]]:
    for node in nodes(module):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in BUILTINS:
                yield node, f"calls {name}()"
            case ast.Call(func=func, args=[], keywords=[]) if dotted(func) == "random.Random":
                yield node, "makes a generator without a seed"
            case ast.Attribute(value=ast.Name(id="random"), attr=attr) if attr != "Random":
                yield node, f"uses random.{attr}, the global generator"
            case ast.Attribute(attr=attr) if CLOCKS.fullmatch(dotted(node)):
                yield node, f"reads the clock by {attr}"
            case ast.ImportFrom(module="random", names=names):
                for alias in names:
                    if alias.name != "Random":
                        yield node, f"uses random.{alias.name}, the global generator"
            case ast.AsyncFunctionDef() | ast.Await():
                yield node, "is asynchronous"
            case _:
                pass


def _state(module: Module) -> Iterator[tuple[ast.AST, str]]:
    """State of a module survives a scheduler, so two runs in one process would differ."""
    for node in nodes(module):
        if isinstance(node, ast.Global):
            yield node, f"changes the module's own {', '.join(node.names)}"


def _set_order(module: Module) -> Iterator[tuple[ast.AST, str]]:
    order_free = {
        id(argument)
        for node in nodes(module)
        if isinstance(node, ast.Call) and dotted(node.func) in ORDER_FREE
        for argument in node.args
    }
    for scope, attributes in _scopes(module.tree):
        names = _set_names(scope) | attributes
        for node in _own_nodes(scope):
            for iterated in _iterated(node, order_free):
                if _is_set(iterated, names):
                    yield node, f"goes through the set {ast.unparse(iterated)} in no certain order"


def _iterated(node: ast.AST, order_free: set[int]) -> Iterator[ast.expr]:
    """The expressions whose order shows in what `node` does."""
    match node:
        case ast.For(iter=iterated):
            yield iterated
        case ast.SetComp() | ast.GeneratorExp() | ast.ListComp() if id(node) in order_free:
            return
        case ast.SetComp():
            return
        case ast.ListComp(generators=generators) | ast.GeneratorExp(generators=generators):
            yield from (generator.iter for generator in generators)
        case ast.DictComp(generators=generators):
            yield from (generator.iter for generator in generators)
        case ast.Call(func=ast.Name(id=name), args=args) if (
            name in ORDERED and id(node) not in order_free
        ):
            yield from args
        case ast.Call(func=ast.Attribute(attr="join" | "extend"), args=args):
            yield from args
        case ast.Call(func=ast.Attribute(value=value, attr="pop"), args=[]):
            yield value
        case ast.Starred(value=value):
            yield value
        case _:
            pass


def _is_set(node: ast.expr, names: set[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Call(func=ast.Attribute(attr=attr)) if attr in SET_METHODS:
            return True
        case ast.BinOp(
            op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), left=left, right=right
        ):
            return _is_set(left, names) or _is_set(right, names)
        case ast.Name() | ast.Attribute():
            return dotted(node) in names
        case _:
            return False


def _scopes(tree: ast.Module) -> Iterator[tuple[ast.AST, set[str]]]:
    """The module and every function, each with the attributes of `self` that are sets."""
    owner: dict[int, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            attributes = _self_sets(node)
            for child in ast.walk(node):
                owner[id(child)] = attributes
    yield tree, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, owner.get(id(node), set())


def _self_sets(node: ast.ClassDef) -> set[str]:
    found = {f"self.{name}" for name in _set_names(node)}  # fields of a dataclass
    for child in ast.walk(node):
        match child:
            case ast.AnnAssign(target=ast.Attribute() as target, annotation=annotation):
                if _is_set_type(annotation):
                    found.add(dotted(target))
            case ast.Assign(targets=[ast.Attribute() as target], value=value):
                if _is_set(value, set()):
                    found.add(dotted(target))
            case _:
                pass
    return found


def _set_names(scope: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in _own_nodes(scope):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_set(value, found):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                if _is_set_type(annotation):
                    found.add(name)
            case ast.arg(arg=name, annotation=ast.expr() as annotation) if _is_set_type(annotation):
                found.add(name)
            case _:
                pass
    return found


def _is_set_type(annotation: ast.expr) -> bool:
    base = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return dotted(base) in ("set", "frozenset", "AbstractSet", "collections.abc.Set")


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope without those of the functions and classes inside it, in order."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _own_nodes(child)
