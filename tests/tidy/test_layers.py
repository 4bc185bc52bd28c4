"""Imports point upward in the list of layers, and parts know of others only what they may."""

import sys

import pytest

from tests.tidy.layers import breaches, cycles, root_breaches, undeclared
from tests.tidy.sources import imports, is_within, module_of, shipped_modules, top_level


def test_imports_point_to_the_same_layer_or_upward() -> None:
    assert list(breaches(shipped_modules())) == []


def test_packages_above_pure_modules_pull_in_nothing() -> None:
    assert list(root_breaches(shipped_modules())) == []


def test_no_modules_import_one_another_while_they_are_loaded() -> None:
    assert list(cycles(shipped_modules())) == []


def test_every_package_that_is_imported_is_a_declared_dependency() -> None:
    assert list(undeclared(shipped_modules())) == []


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("koala.core.model.job", "from koala.policies import registry", "lower layer"),
        ("koala.core.model.job", "import koala.daemon.loop.event_loop", "lower layer"),
        ("koala.core.model.job", "def f():\n    from koala import wire", "lower layer"),
        (
            "koala.daemon.main",
            "from koala.cli.render.documents import table",
            "lower layer",
        ),
        (
            "koala.lab.models",
            "from koala.cli.research.setting_options import simulation",
            "lower layer",
        ),
        ("koala.twin.folders", "def f():\n    import koala.cli.local.folders", "lower layer"),
        (
            "koala_agent.claims.table",
            "from koala.core.model.values import ClaimId",
            "an agent knows only",
        ),
        ("koala.sim.engine", "from koala_agent.starter import x", "shares only lrm.model"),
        ("koala.daemon.loop.event_loop", "import aiomqtt", "only koala.daemon.notifications.mqtt"),
        ("koala.sim.engine", "import grpc.aio", "only koala.wire"),
        ("koala.daemon.loop.event_loop", "def f():\n    import numpy", "only koala.sim"),
        ("koala.helpers", "", "has no layer"),
    ],
)
def test_a_breach_of_the_layers_is_found(name: str, text: str, word: str) -> None:
    (found,) = breaches([module_of(text, name=name)])
    assert word in found


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("koala.core.scheduler", "from koala.core import job\nfrom koala.errors import SpecError"),
        ("koala.sim.engine", "from koala_agent.lrm.model import LRMState"),
        (
            "koala_agent.link.stream",
            "from koala.wire.v1 import link_pb2\nfrom koala.errors import KoalaError",
        ),
        ("koala.daemon.main", "from koala.daemon.notifications.mqtt import publish"),
        ("koala.cli.local.demo", "import koala_agent.main, koala.daemon.main, rich.table"),
    ],
)
def test_imports_that_are_meant_are_allowed(name: str, text: str) -> None:
    assert list(breaches([module_of(text, name=name)])) == []


def test_a_cycle_is_found_and_a_late_import_is_none() -> None:
    first = module_of("import koala.b", name="koala.a")
    assert list(cycles([first, module_of("import koala.a", name="koala.b")])) == [
        "koala.a -> koala.b -> koala.a"
    ]
    late = module_of("def f():\n    import koala.a", name="koala.b")
    assert list(cycles([first, late])) == []


def test_an_undeclared_package_is_found() -> None:
    (found,) = undeclared([module_of("import json, numpy\nimport structlog, grpc")])
    assert "numpy" in found


def test_the_starter_needs_nothing_but_the_standard_library() -> None:
    """It runs on compute nodes, where nothing of ours is installed."""
    starters = [m for m in shipped_modules() if is_within(m.name, "koala_agent.starter")]
    assert len(starters) > 5
    for module in starters:
        targets = [found.target for found in imports(module)]
        own = [target for target in targets if is_within(target, "koala_agent.starter")]
        assert all(target in own or _is_standard(target) for target in targets), module.name


def _is_standard(name: str) -> bool:
    return top_level(name) in sys.stdlib_module_names
