"""Rules about which module may import which: the rooms as data, and the search for breaches."""

import sys
import tomllib
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions

from tests.tidy.sources import ROOT, Module, imports, is_within, top_level

ROOMS: dict[str, tuple[str, ...]] = {
    "koala.errors": (),
    "koala.job": (),
    "koala.common": ("koala.errors",),
    "koala.core": ("koala.common",),
    "koala.queue_model": ("koala.common",),
    "koala.policies": ("koala.core",),
    "koala.job_descriptions": ("koala.core",),
    "koala.views.records": (),
    "koala.views": ("koala.core", "koala.views.records"),
    "koala_agent": ("koala.queue_model",),
    "koala.client": ("koala.job_descriptions", "koala.views"),
    "koala.daemon": ("koala.job_descriptions", "koala.policies", "koala.views"),
    "koala.cli": ("koala.client",),
    "koala.web": ("koala.client", "koala.policies"),
    "koala.local": ("koala.cli", "koala.daemon", "koala.web", "koala_agent"),
    "koala.lab": ("koala.local",),
}
"""The rooms, from the ground up, and the rooms that each stands upon. A room may import these, and
those that they stand upon. A room within another is named before it."""

BARRED = {
    "koala.client": ("koala.core",),
    "koala.cli": ("koala.core",),
    "koala.web": ("koala.core",),
    "koala.lab": ("koala_agent", "koala.web"),
}
"""Rooms below that a room does not import itself: what it needs of them comes through the rooms
between."""

FLOORS_MAX = 8

ONLY_FROM = {
    "aiomqtt": ("koala.daemon.notifications.mqtt",),
    "grpc": (
        "koala.common.wire",
        "koala.common.identity",
        "koala.common.files",
        "koala.daemon",
        "koala.client",
        "koala.cli",
        "koala.local",
        "koala.common.metrics",
        "koala_agent",
    ),
    "cryptography": (
        "koala.common.identity",
        "koala.common.wire",
        "koala.daemon",
        "koala_agent",
        "koala.cli",
        "koala.local",
    ),
    "prometheus_client": ("koala.common.metrics",),
    "opentelemetry": ("koala.daemon.traces",),
    "rich": ("koala.cli", "koala.local", "koala.common.runtime.progress_bar"),
    "structlog": ("koala.common.runtime.structured_log",),
    **dict.fromkeys(("cloudpickle", "pandas", "pyarrow", "IPython"), ("koala.lab",)),
    "distributed": ("koala.lab.sim.campaign.on_dask", "koala.lab.on_koala"),
    **dict.fromkeys(("starlette", "uvicorn", "jinja2"), ("koala.web",)),
    **dict.fromkeys(("scipy", "numpy", "matplotlib"), ("koala.lab",)),
}
"""Packages that stay at one edge: who may import them."""


def room_of(name: str) -> str | None:
    """The room of a module; None for one outside of all."""
    return next((room for room in ROOMS if is_within(name, room)), None)


def below(room: str) -> set[str]:
    """All rooms that a room stands upon."""
    return {one for below_it in ROOMS[room] for one in (below_it, *below(below_it))}


def floor_of(room: str) -> int:
    """The floor of a room: one above the highest of those that it stands upon."""
    return 1 + max(map(floor_of, ROOMS[room]), default=0)


def breaches(modules: Iterable[Module]) -> Iterator[str]:
    """Imports of rooms that are not below, and of packages that stay at another edge."""
    for module in modules:
        if module.name == "koala":
            continue  # the root package is above all rooms; what it may import: root_breaches
        own = room_of(module.name)
        if own is None:
            yield f"{module.name} is in no room: name it in tests/tidy/layers.py"
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


def circles(modules: Iterable[Module]) -> Iterator[str]:
    """Parts of one folder that import one another, at every depth and also late or for types alone:
    first the rooms of a package, then the folders and modules within each."""
    listed = tuple(modules)
    names = {module.name for module in listed}
    graphs: dict[str, dict[str, set[str]]] = {}
    for module in listed:
        for found in imports(module):
            shared, own, other = _parting(module.name, found.target, names)
            if shared and own != other:
                graphs.setdefault(shared, {}).setdefault(own, set()).add(other)
    for graph in graphs.values():
        yield from _circle(graph)


def _parting(name: str, target: str, names: set[str]) -> tuple[str, str, str]:
    """The last package that two modules share, and the part of each below it."""
    while target not in names and "." in target:
        target = target.rpartition(".")[0]
    here, there = name.split("."), target.split(".")
    depth = next(
        (i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b),
        min(len(here), len(there)),
    )
    if depth in (len(here), len(there)):  # a package and something inside of it
        return "", "", ""
    shared = ".".join(here[:depth])
    return shared, ".".join(here[: depth + 1]), ".".join(there[: depth + 1])


def _circle(graph: dict[str, set[str]]) -> Iterator[str]:
    sorter = TopologicalSorter(graph)
    try:
        sorter.prepare()
    except CycleError as error:
        yield " -> ".join(error.args[1])


def undeclared(modules: Iterable[Module]) -> Iterator[str]:
    """Imports of packages that pyproject.toml does not name among the dependencies, those of the
    extras that Koala imports included; who may import these is in ONLY_FROM."""
    project = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    used = ("sim", "sweep", "notebooks", "web", "mqtt", "metrics", "otel")
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


def _breach(name: str, own: str, target: str) -> str | None:
    if allowed := ONLY_FROM.get(top_level(target)):
        return None if is_within(name, *allowed) else f"only {', '.join(allowed)} may"
    if top_level(target) not in ("koala", "koala_agent") or target == "koala":
        return None
    room = room_of(target)
    if room is None:
        return "that module is in no room"
    if room != own and (room not in below(own) or room in BARRED.get(own, ())):
        return f"{own} does not stand upon {room}"
    return None
