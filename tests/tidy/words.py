"""Words and habits that do not belong into the source, and the search for them.

Each rule looks for its words in the text first: to parse a module, or to go through its syntax
tree, takes a hundred times as long, and nearly all modules have none of them.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator

from tests.tidy.sources import Module, dotted, imports, is_within, nodes

OPEN_END = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
NUMBERED = re.compile(r"\(#\d+\)")
BARE_IGNORE = re.compile(r"type:\s*ignore(?!\[)|noqa(?!:)")
VAGUE_NAMES = {"util", "utils", "helper", "helpers", "misc", "common", "manager", "handler", "info"}

TASK_MAKERS = {"asyncio.create_task", "asyncio.ensure_future", "asyncio.get_event_loop"}
SLEEPS = {"time.sleep", "asyncio.sleep"}
CLOCKS = re.compile(
    r"time\.(time|monotonic|perf_counter|clock_gettime)(_ns)?|(date|datetime)\.(now|utcnow|today)"
)
CLOCK_MODULES = ("koala.common.runtime.clock", "koala_agent.starter")
SKIPS = {"pytest.skip", "pytest.importorskip", "pytest.mark.skip", "pytest.mark.skipif"}


def bad_words(module: Module) -> Iterator[str]:
    """Comments that leave ends open or silence a tool without saying which rule."""
    if not (OPEN_END.search(module.text) or BARE_IGNORE.search(module.text)):
        return  # to tell comments from texts takes long
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type == tokenize.COMMENT:
            place = f"{module.path.name}:{token.start[0]}"
            if OPEN_END.search(token.string) and not NUMBERED.search(token.string):
                yield f"{place}: an open end without the number of an issue"
            if BARE_IGNORE.search(token.string):
                yield f"{place}: silences a tool without naming the rule"


def bad_habits(module: Module) -> Iterator[str]:
    """Calls and statements that are banned everywhere."""
    if module.path.stem in VAGUE_NAMES:
        yield f"{module.path}: the name says nothing"
    names = (*TASK_MAKERS, "NotImplementedError", "except:", "except :")
    if not any(name in module.text for name in names):
        return
    for node in nodes(module):
        match node:
            case ast.Call(func=func) if dotted(func) in TASK_MAKERS:
                yield f"{module.at(node)}: {dotted(func)} (use a TaskGroup)"
            case ast.FunctionDef(body=body) | ast.AsyncFunctionDef(body=body):
                if _is_stub(body):
                    yield f"{module.at(node)}: a stub"
            case ast.ExceptHandler(type=None):
                yield f"{module.at(node)}: a blind except"
            case _:
                pass


def clock_readers(module: Module) -> Iterator[str]:
    """Find readings of the machine's clocks outside the modules that are for it."""
    if any(is_within(module.name, name) for name in CLOCK_MODULES):
        return
    if not CLOCKS.search(module.text):
        return
    for node in nodes(module):
        if isinstance(node, ast.Attribute) and CLOCKS.fullmatch(dotted(node)):
            yield f"{module.at(node)}: {dotted(node)} (use koala.common.runtime.clock)"


def _is_stub(body: list[ast.stmt]) -> bool:
    """Nothing but NotImplementedError; a hook that refuses a type in this way has more to it."""
    match body[-1]:
        case ast.Raise(exc=ast.Name(id=name) | ast.Call(func=ast.Name(id=name))):
            rest = body[:-1]
            return name == "NotImplementedError" and all(isinstance(x, ast.Expr) for x in rest)
        case _:
            return False


def bad_tests(module: Module) -> Iterator[str]:
    """Find what tests may not do: sleep, skip, or replace our own code by mocks."""
    if not any(name in module.text for name in (*SLEEPS, *SKIPS, "mock")):
        return
    for node in nodes(module):
        match node:
            case ast.Call(func=func, args=args) if dotted(func) in SLEEPS:
                if not (args and isinstance(args[0], ast.Constant) and args[0].value == 0):
                    yield f"{module.at(node)}: sleeps instead of waiting for what it waits for"
            case ast.Attribute() if dotted(node) in SKIPS:
                yield f"{module.at(node)}: skips"
            case _:
                pass
    for found in imports(module):
        if is_within(found.target, "unittest.mock", "mock", "pytest_mock"):
            yield f"{module.at(found.node)}: mocks"


OPENINGS = re.compile(r"(What|Whether|Which|Where|Who|Whoever|Whose|Whom|How|Why)\b")
"""First words of a docstring that name no action."""
QUOTED_OPENINGS = re.compile(rf"[\"'](?:\s|\\\n)*{OPENINGS.pattern}")


def riddles(module: Module) -> Iterator[str]:
    """Find docstrings that begin with a question word instead of a verb and its object."""
    if not QUOTED_OPENINGS.search(module.text):
        return
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in nodes(module):
        if isinstance(node, kinds) and OPENINGS.match(ast.get_docstring(node) or ""):
            yield f"{module.at(node)}: the docstring begins with a question word"


RETIRED = {
    "bell", "bodies", "book", "brand", "carrier", "chronicle", "courier", "desk", "door", "doors",
    "errand", "gauge", "ground", "guard", "holdings", "look", "looked", "losing", "marks",
    "mirror", "news", "notices", "pump", "roster", "seal", "standing", "strangers", "tell", "texts",
    "tidings", "turnstile", "upkeep",
}  # fmt: skip
"""Names of an older private language; docs/glossary.md has the field's terms."""

CLASSES = re.compile(r"class (\w+)")

RETIRED_VERBS = {"hear", "look", "news", "said", "tell", "told"}
"""Names of functions and parameters: the field says receive, check, report, answer and send."""


NAMED_BY_VERB = re.compile(rf"\b_*({'|'.join(sorted(RETIRED_VERBS))})_*\s*[:,()=]")


def retired_names(module: Module) -> Iterator[str]:
    """Find modules and classes with a retired name."""
    if module.path.stem in RETIRED:
        yield f"{module.path}: the name is retired, see docs/glossary.md"
    if not any(name.strip("_").lower() in RETIRED for name in CLASSES.findall(module.text)):
        return
    for node in module.tree.body:
        if isinstance(node, ast.ClassDef) and node.name.strip("_").lower() in RETIRED:
            yield f"{module.at(node)}: the name {node.name} is retired, see docs/glossary.md"


def retired_verbs(module: Module) -> Iterator[str]:
    """Find functions and parameters with a retired name; scripts of tests may have them."""
    if not NAMED_BY_VERB.search(module.text):
        return
    for node in nodes(module):
        name = node.arg if isinstance(node, ast.arg) else getattr(node, "name", None)
        is_ours = isinstance(node, ast.arg | ast.FunctionDef | ast.AsyncFunctionDef)
        if is_ours and str(name).strip("_") in RETIRED_VERBS:
            yield f"{module.at(node)}: the name {name} is retired, see docs/glossary.md"


VAGUE_VARIABLES = re.compile(r"\bfor (one|given|made) in\b|\b(one|given|made) = ")
NOUN_ROOMS = (
    "koala.policies", "koala.job_descriptions", "koala.common.wire", "koala.common.identity",
    "koala.common.runtime", "koala.daemon.auth", "koala.daemon.storage", "koala.daemon.state",
    "koala.daemon.agents", "koala_agent.claims", "koala_agent.link", "koala.views", "koala.cli",
    "koala.client", "koala.lab.twin",
)  # fmt: skip


def vague_variables(module: Module) -> Iterator[str]:
    """Find variables without a noun, in the rooms where all have theirs."""
    if any(is_within(module.name, room) for room in NOUN_ROOMS):
        for found in VAGUE_VARIABLES.finditer(module.text):
            yield f"{module.name}: {found[0]!r} names nothing: what is it?"


ERROR_FORM = re.compile(
    r"(?m)^.*(?<!\")\"(?!\")[^\"#\n]*\b"
    r"((allowed|known) (is|are) (?!not )|(?<!here )(is|are) no (?!longer |more )).*$"
)
"""A message that does not have the form `what is wrong (expected what)`."""


def old_errors(module: Module) -> Iterator[str]:
    """Find messages in the form of an older language."""
    for line in ERROR_FORM.finditer(module.text):
        number = module.text.count("\n", 0, line.start()) + 1
        yield f"{module.name}:{number}: say what is wrong (expected what): {line[0].strip()}"


NAME_DEPTHS = {"koala.lab.papers": 4, "koala.lab.sim": 4, "koala.lab": 3, "koala.common": 3}
"""So many leading parts of a module's name are the layer in which a class name is unique."""


def names_twice(modules: Iterable[Module]) -> Iterator[str]:
    """Find public class names that one layer has twice."""
    places: dict[tuple[str, str], list[str]] = {}
    for module in modules:
        depth = next((n for room, n in NAME_DEPTHS.items() if is_within(module.name, room)), 2)
        layer = ".".join(module.name.split(".")[:depth])
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault((layer, node.name), []).append(module.at(node))
    for (layer, name), found in sorted(places.items()):
        if len(found) > 1:
            yield f"{layer}: {name} is {' and '.join(found)}"
