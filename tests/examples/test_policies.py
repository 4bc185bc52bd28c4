"""The example of policies from outside, found by its entry points as an installed package is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from koala.common.runtime.foreign.guards import Guarded
from koala.common.runtime.plugins import outside_names
from koala.core.model.progress_reports import Correction, MemberProgress, ProgressQuestion
from koala.daemon.config import parse_config
from koala.errors import ConfigError
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


def test_what_is_installed_on_a_path_that_is_added_later_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "best-fit" not in outside_names("placement")
    monkeypatch.syspath_prepend(install(tmp_path).split(os.pathsep)[1])
    assert "best-fit" in outside_names("placement")


@pytest.mark.usefixtures("installed")
def test_jobs_find_its_progress_policy_by_name(tmp_path: Path) -> None:
    config = parse_config(DAEMON.format("CF"), source="test.toml", folder=tmp_path)
    policy = config.policies.progress["wait-for-the-last"]
    assert isinstance(policy, Guarded)
    members = tuple(
        MemberProgress(component=n, virtual_s=at, weight=weight, admitted=1.0, spare=1.0 - weight)
        for n, (at, weight) in enumerate(((9.0, 1.0), (5.0, 0.5), (4.5, 1.0)))
    )
    question = ProgressQuestion(real_s=10.0, members=members, asynchrony_s=1.0)
    assert policy(question) == (
        Correction(component=0, weight=-1.0),
        Correction(component=1, weight=0.5),
    )
    assert not policy.guard.trouble


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gone", "cannot be loaded: AttributeError"),
        ("no", "json:__name__ is no function"),
        ("bestfit", "known are CF, WF, WF-distinct, NoNetwork, PreferLocal, Service, best-fit"),
    ],
)
def test_one_that_is_not_there_is_named(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        parse_config(DAEMON.format(name), source="test.toml", folder=tmp_path)


def test_simulated_time_has_it_too(tmp_path: Path) -> None:
    paths = (str(EXAMPLES.parent), str(EXAMPLES.parent / "agents"), install(tmp_path))
    ran = subprocess.run(
        [sys.executable, "-m", "koala.cli", "simulate", "hints", "--policy", "best-fit",
         "--jobs", "20", "--reps", "1", "--json"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    assert json.loads(ran.stdout)["response"]["all"]["mean"] > 0


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


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.long
async def test_a_live_job_is_controlled_by_it_and_runs_freely_when_it_errs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both programs tell their progress, one of them faster; the policy is the job's own choice."""
    errs = tmp_path / "errs.py"
    errs.write_text("def correct(question):\n    return 1 / 0\n", encoding="utf-8")
    (tmp_path / "found").mkdir()
    paths = install(tmp_path / "found", {"progress.errs": "errs:correct"})
    monkeypatch.setenv("KOALA_TEST_PATH", os.pathsep.join((paths, str(tmp_path))))
    script = "for i in `seq 100`; do echo $(($i * $1)) > $KOALA_PROGRESS; sleep 0.03; done"
    part = f"(executable=/bin/sh)(arguments=-c '{script}' tell"
    parts = f"(&(label=slow){part} 1))(&(label=fast){part} 4))"
    with live_grid(tmp_path / "grid", sites={"one": 2, "other": 2}) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            for policy in ("wait-for-the-last", "errs"):
                rsl = f"+(progress={policy})(asynchrony=3){parts}"
                job = (await client.submit(rsl)).job
                assert await client.wait(job) == "Finished"
                told = (await client.show(job))["progress"]
                assert (told["corrections"] > 0) == (policy != "errs"), told
            assert (await client.metrics())["replaced_policies"] == {
                "progress.errs": "ZeroDivisionError: division by zero"
            }
