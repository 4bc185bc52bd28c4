"""The example of policies from outside, found by its entry points as an installed package is."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from koala.common.runtime.foreign.guards import Guarded
from koala.daemon.config import parse_config
from tests.examples.stage import EXAMPLES
from tests.live.grid import live_grid

PACKAGE = EXAMPLES / "policies"
DAEMON = '[daemon]\nstate_dir = "state"\n[policies]\nplacement = "{}"\n'


def install(folder: Path, more: dict[str, str] | None = None) -> str:
    """Write what an installation leaves for Python to find; returns the path to look in."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    points = {**project["entry-points"]["koala.policies"], **(more or {})}
    place = folder / f"koala_policies_example-{project['version']}.dist-info"
    place.mkdir()
    (place / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n",
        encoding="utf-8",
    )
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    (place / "entry_points.txt").write_text(f"[koala.policies]\n{lines}", encoding="utf-8")
    return os.pathsep.join((str(PACKAGE), str(folder)))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    gone = {
        "placement.gone": "koala_policies_example.placement:gone",
        "placement.no": "json:__name__",
    }
    for path in install(tmp_path, gone).split(os.pathsep):
        monkeypatch.syspath_prepend(path)
    yield
    for name in [name for name in sys.modules if name.startswith("koala_policies_example")]:
        del sys.modules[name]


@pytest.mark.usefixtures("installed")
def test_a_daemon_finds_it_by_name_and_guards_it(tmp_path: Path) -> None:
    config = parse_config(DAEMON.format("best-fit"), source="test.toml", folder=tmp_path)
    assert isinstance(config.policies.place, Guarded)
    assert ("placement", "best-fit") in config.policy_names


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.long
async def test_a_live_grid_places_by_it_and_goes_on_when_it_errs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The smaller site is the better fit; a policy that errs instead is replaced by the default."""
    errs = tmp_path / "errs.py"
    errs.write_text("def place(request, view):\n    return 1 / 0\n", encoding="utf-8")
    (tmp_path / "found").mkdir()
    paths = install(tmp_path / "found", {"placement.errs": "errs:place"})
    monkeypatch.setenv("KOALA_TEST_PATH", os.pathsep.join((paths, str(tmp_path))))
    for policy, site in (("best-fit", "small"), ("errs", "large")):
        more = {"daemon": f'[policies]\nplacement = "{policy}"\n'}
        with live_grid(tmp_path / policy, sites={"large": 8, "small": 2}, more=more) as grid:
            async with grid.client() as client:
                await grid.ready(client)
                job = (await client.submit("&(executable=/bin/true)(count=2)")).job
                assert await client.wait(job) == "Finished"
                shown = await client.show(job)
                replaced = (await client.metrics())["replaced_policies"]
        assert [part["site"] for part in shown["parts"]] == [site]
        assert replaced == (
            {}
            if policy == "best-fit"
            else {"placement.errs": "ZeroDivisionError: division by zero"}
        )
