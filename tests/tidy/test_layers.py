"""Each room knows only the rooms that it stands upon, and nothing imports itself in a circle."""

import subprocess
import sys

import pytest

from tests.tidy.layers import (
    FLOORS_MAX,
    ROOMS,
    breaches,
    circles,
    floor_of,
    root_breaches,
    undeclared,
)
from tests.tidy.sources import (
    ROOT,
    imports,
    is_within,
    module_of,
    shipped_modules,
    top_level,
)

AGENTS_DO_WITHOUT = ("koala.daemon", "koala.cli", "koala.web", "koala.local", "koala.lab")


def test_rooms_know_only_what_they_stand_upon() -> None:
    assert list(breaches(shipped_modules())) == []


def test_the_rooms_are_few_and_on_few_floors() -> None:
    folders = {f"koala.{path.parent.name}" for path in ROOT.glob("koala/*/__init__.py")}
    outer = {room for room in ROOMS if not any(is_within(room, one) for one in {*ROOMS} - {room})}
    assert folders | {"koala.errors", "koala.job", "koala_agent"} == outer
    assert max(map(floor_of, ROOMS)) <= FLOORS_MAX


def test_the_processes_of_an_agent_import_no_daemon_command_or_page() -> None:
    program = "import koala_agent.main, koala_agent.doctor, koala_agent.background, sys"
    run = subprocess.run(
        [sys.executable, "-c", f"{program}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert [name for name in run.stdout.split() if is_within(name, *AGENTS_DO_WITHOUT)] == []


def test_packages_above_pure_modules_pull_in_nothing() -> None:
    assert list(root_breaches(shipped_modules())) == []


def test_no_folder_at_any_depth_has_a_circle() -> None:
    assert list(circles(shipped_modules())) == []


def test_every_package_that_is_imported_is_a_declared_dependency() -> None:
    assert list(undeclared(shipped_modules())) == []


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("koala.core.model.job", "from koala.policies import registry", "does not stand upon"),
        ("koala.core.model.job", "import koala.daemon.loop.event_loop", "does not stand upon"),
        ("koala.common.wire", "def f():\n    from koala.core import state", "does not stand upon"),
        ("koala.daemon.main", "from koala.cli.render.documents import table", "does not stand"),
        ("koala.daemon.main", "import koala_agent.config", "does not stand upon koala_agent"),
        ("koala.cli.jobs.run", "from koala.lab.sim.options import number", "does not stand upon"),
        ("koala.cli.jobs.run", "import koala_agent.doctor", "does not stand upon koala_agent"),
        ("koala.client.client", "import koala.core.scheduler", "does not stand upon koala.core"),
        ("koala.views.records.jobs", "from koala.core.model.job import Job", "does not stand upon"),
        ("koala.views.records.base", "from koala.views import units", "does not stand upon"),
        ("koala.lab.grids", "from koala_agent.config import Config", "does not stand upon"),
        ("koala_agent.claims.table", "from koala.core.model.values import ClaimId", "stand upon"),
        ("koala.daemon.loop.event_loop", "import aiomqtt", "only koala.daemon.notifications.mqtt"),
        ("koala.lab.sim.engine", "import grpc.aio", "only koala.common.wire"),
        ("koala.daemon.loop.event_loop", "def f():\n    import numpy", "only koala.lab"),
        ("koala.helpers", "", "is in no room"),
    ],
)
def test_a_breach_of_the_rooms_is_found(name: str, text: str, word: str) -> None:
    (found,) = breaches([module_of(text, name=name)])
    assert word in found


def test_a_circle_is_found_at_any_depth_and_if_an_import_is_late() -> None:
    first = module_of("import koala.x.b", name="koala.x.a")
    late = module_of("def f():\n    import koala.x.a", name="koala.x.b")
    assert list(circles([first, late])) == ["koala.x.a -> koala.x.b -> koala.x.a"]
    modules = [
        module_of("from koala.x.two.b import f", name="koala.x.one.a"),
        module_of("from koala.x.one.c import g", name="koala.x.two.d"),
        module_of("", name="koala.x.two.b"),
        module_of("", name="koala.x.one.c"),
    ]
    (found,) = circles(modules)
    assert sorted(found.split(" -> ")[:2]) == ["koala.x.one", "koala.x.two"]


def test_the_starter_needs_nothing_but_the_standard_library() -> None:
    """It runs on compute nodes, where nothing of ours is installed; so does `koala.job`."""
    rooms = ("koala_agent.starter", "koala.job")
    starters = [m for m in shipped_modules() if is_within(m.name, *rooms)]
    assert len(starters) > 5
    for module in starters:
        targets = [found.target for found in imports(module)]
        own = [target for target in targets if is_within(target, "koala_agent.starter")]
        assert all(target in own or _is_standard(target) for target in targets), module.name


def _is_standard(name: str) -> bool:
    return top_level(name) in sys.stdlib_module_names
