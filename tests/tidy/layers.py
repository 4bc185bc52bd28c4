"""Rules about which module may import which: the layers as data, and the search for breaches."""

import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions

from tests.tidy.sources import ROOT, Module, imports, is_within, top_level

LAYERS: tuple[tuple[str, ...], ...] = (
    (
        "koala.errors",
        "koala.protocol.constraints",
        "koala.protocol.limits",
        "koala.protocol.messages",
        "koala.protocol.names",
        "koala.protocol.ordering",
        "koala.protocol.versions",
        "koala.runtime",
    ),
    ("koala.core.model",),
    ("koala.core.answer_recorder", "koala.core.policy_api"),
    (
        "koala.core.feasibility",
        "koala.core.queries",
        "koala.core.resources",
        "koala.core.sites",
        "koala.core.state",
    ),
    ("koala.core.pipeline",),
    ("koala.core",),
    ("koala.views",),
    ("koala.policies",),
    ("koala_agent.lrm.model",),
    ("koala.rsl",),
    ("koala.workload",),
    ("koala.wire.services", "koala.wire.v1"),
    ("koala.identity", "koala.wire"),
    ("koala.protocol",),
    ("koala.metrics",),
    ("koala.files",),
    ("koala.sim", "koala.papers"),
    ("koala_agent.sealed_database", "koala_agent.starter"),
    ("koala_agent.transport",),
    ("koala_agent.lrm",),
    ("koala_agent",),
    (
        "koala.daemon.config",
        "koala.daemon.storage.folder",
    ),
    ("koala.daemon.storage",),
    ("koala.daemon.quotas",),
    ("koala.daemon.auth",),
    ("koala.daemon",),
    ("koala.client",),
    ("koala.web",),
    ("koala.conformance", "koala.grid_file"),
    ("koala.lab", "koala.twin", "koala.yardstick"),
    (
        "koala.cli",
        "koala.papers.deadlines.command",
        "koala.papers.hints.command",
        "koala.papers.koala.command",
        "koala.papers.multiqueue.command",
        "koala.papers.synchronous.command",
    ),
)
"""An import may point to its own group or to an earlier one."""

ONLY_FROM = {
    "aiomqtt": ("koala.daemon.notifications.mqtt",),
    "grpc": (
        "koala.wire",
        "koala.identity",
        "koala.files",
        "koala.daemon",
        "koala.client",
        "koala.cli",
        "koala.metrics",
        "koala_agent",
    ),
    "cryptography": ("koala.identity", "koala.wire", "koala.daemon", "koala_agent", "koala.cli"),
    "prometheus_client": ("koala.metrics",),
    "opentelemetry": ("koala.daemon.traces",),
    "rich": ("koala.cli", "koala.runtime.progress_bar"),
    "structlog": ("koala.runtime.structured_log",),
    **dict.fromkeys(("cloudpickle", "pandas", "pyarrow", "IPython"), ("koala.lab",)),
    "distributed": ("koala.sim.campaign.on_dask", "koala.lab.on_koala"),
    **dict.fromkeys(("starlette", "uvicorn", "jinja2"), ("koala.web",)),
    **dict.fromkeys(
        ("scipy", "numpy", "matplotlib"),
        ("koala.sim", "koala.papers", "koala.workload", "koala.lab"),
    ),
}
"""Packages that stay at one edge: who may import them."""


OF_BOTH_ENDS = (
    "koala.wire",
    "koala.identity",
    "koala.protocol",
    "koala.metrics",
    "koala.files",
    *LAYERS[0],
)
"""What agents share with the daemon; they know nothing of the core."""


def layer_of(name: str) -> int | None:
    """The group with the longest name that fits; None for a module that no group names."""
    fitting = [
        (len(prefix), index)
        for index, group in enumerate(LAYERS)
        for prefix in group
        if is_within(name, prefix)
    ]
    return max(fitting)[1] if fitting else None


def breaches(modules: Iterable[Module]) -> Iterator[str]:
    """Imports that point downward, or across one of the walls between the parts."""
    for module in modules:
        if module.name == "koala":
            continue  # the root package is above all layers; what it may import: root_breaches
        own = layer_of(module.name)
        if own is None:
            yield f"{module.name} has no layer: name it in tests/tidy/layers.py"
            continue
        for found in imports(module):
            if why := _breach(module.name, own, found.target):
                yield f"{module.at(found.node)}: {module.name} imports {found.target}: {why}"


def root_breaches(modules: Iterable[Module]) -> Iterator[str]:
    """Packages above a pure module are imported with it, so they must not pull in others."""
    for module in modules:
        if module.name in ("koala", "koala_agent", "koala_agent.lrm"):
            for found in imports(module):
                if not found.is_late and top_level(found.target) not in sys.stdlib_module_names:
                    yield f"{module.at(found.node)}: {module.name} imports {found.target}"


def cycles(modules: Iterable[Module]) -> Iterator[str]:
    """Modules that import one another while they are loaded, each cycle once."""
    graph = {
        module.name: sorted({found.target for found in imports(module) if not found.is_late})
        for module in modules
    }
    state: dict[str, str] = {}

    def visit(name: str, path: tuple[str, ...]) -> Iterator[str]:
        state[name] = "open"
        for target in graph[name]:
            if target not in graph or target == name:
                continue
            if state.get(target) == "open":
                yield " -> ".join((*path[path.index(target) :], target))
            elif target not in state:
                yield from visit(target, (*path, target))
        state[name] = "closed"

    for name in graph:
        if name not in state:
            yield from visit(name, (name,))


def undeclared(modules: Iterable[Module]) -> Iterator[str]:
    """Imports of packages that pyproject.toml does not name among the dependencies, those of the
    extras `sim`, `web`, `metrics` and `otel` included; who may import these is in ONLY_FROM."""
    project = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    used = ("sim", "sweep", "notebooks", "web", "metrics", "otel")
    requirements = [*project["dependencies"], *(one for name in used for one in extras[name])]
    declared = {_normal(requirement.partition(">")[0]) for requirement in requirements}
    owners = packages_distributions()
    for module in modules:
        for found in imports(module):
            package = top_level(found.target)
            if package in sys.stdlib_module_names or package in ("koala", "koala_agent"):
                continue
            names = owners.get(package, (package,))  # one that is not installed has no owner
            if declared.isdisjoint(map(_normal, names)):
                yield f"{module.at(found.node)}: {package} is no dependency in pyproject.toml"


def _normal(distribution: str) -> str:
    return distribution.lower().replace("_", "-")


def _breach(name: str, own: int, target: str) -> str | None:
    if allowed := ONLY_FROM.get(top_level(target)):
        return None if is_within(name, *allowed) else f"only {', '.join(allowed)} may"
    if top_level(target) not in ("koala", "koala_agent") or target == "koala":
        return None
    if (
        is_within(name, "koala_agent")
        and is_within(target, "koala")
        and not is_within(target, *OF_BOTH_ENDS)
    ):
        return "an agent knows only " + ", ".join(OF_BOTH_ENDS)
    if (
        is_within(name, "koala.sim")
        and is_within(target, "koala_agent")
        and not is_within(target, "koala_agent.lrm.model")
    ):
        return "the simulator shares only lrm.model with the agents"
    layer = layer_of(target)
    if layer is None:
        return "that module has no layer"
    return f"that is a lower layer ({LAYERS[layer][0]})" if layer > own else None
