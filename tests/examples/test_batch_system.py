"""A batch system of a package outside: found by its entry point, tried, and used by a grid."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from koala.errors import ConfigError
from koala_agent.config import parse_config
from koala_agent.conformance.checks import CHECKS
from koala_agent.lrm.dialect import NAME_MAX
from tests.examples.toy import PAGE, ToyQueue, install, install_toy, toy_queue
from tests.harness.moments import until
from tests.live.grid import ROOT, live_grid

AGENT = '[agent]\nplain = true\nsite = "mine"\ndaemon = "127.0.0.1:7740"\nstate_dir = "state"\n'
SITE = "[site]\nprocessors = 4\n"
LIMIT_S = 300.0
PYTHON_REPR = re.compile(r"\b[A-Z]\w+\([a-z_]+=|<[A-Z]\w+\.|\bb'|\['|\bNone\b")
"""Objects of Python, as only its programmers read them."""


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[ToyQueue]:
    with toy_queue(tmp_path / "toy") as queue:
        yield queue


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = install_toy(tmp_path / "package")
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "koala_toy"]:
        del sys.modules[name]


def run(module: str, *words: str, package: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of Koala where the package is installed."""
    paths = (str(ROOT), str(ROOT / "agents"), str(package))
    return subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def run_kit(
    queue: ToyQueue, package: Path, folder: Path, *words: str
) -> subprocess.CompletedProcess[str]:
    config = folder / "mine.toml"
    config.write_text(f"{AGENT}{SITE}{queue.lrm()}", encoding="utf-8")
    command = ("conformance", str(config), "--time-limit", "1", *words)
    return run("koala_agent", *command, package=package, folder=folder)


def conformance(
    queue: ToyQueue, package: Path, folder: Path, *words: str
) -> dict[str, tuple[str, str]]:
    """Run the kit; its findings by check."""
    ran = run_kit(queue, package, folder, "--json", *words)
    assert ran.stdout, ran.stderr
    document = json.loads(ran.stdout)
    assert (ran.returncode == 0) == document["is_well"]
    assert not PYTHON_REPR.search(ran.stdout), ran.stdout
    return {one["check"]: (one["result"], one["text"]) for one in document["checks"]}


def test_the_page_has_what_the_code_says() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert f"at most {NAME_MAX} characters" in page
    rows = re.findall(
        r"^\| (`[^|]*`) \| .* \|$", page.partition("| check | fails if")[2], re.MULTILINE
    )
    assert [name for row in rows for name in re.findall("`([^`]+)`", row)] == [
        "batch system", *CHECKS, "commands",
    ]  # fmt: skip


@pytest.mark.live
def test_the_toy_of_the_page_passes_the_kit(
    queue: ToyQueue, installed: Path, tmp_path: Path
) -> None:
    found = conformance(queue, installed, tmp_path)
    assert set(found) == {"batch system", *CHECKS, "commands"}
    assert {name: result for name, (result, _) in found.items()} == dict.fromkeys(found, "ok"), (
        found
    )
    assert "so Koala counts on 4 of its own" in found["batch system"][1]
    assert not list((tmp_path / "state").iterdir()), "the kit has left something"


SPOILT = {
    "a submission runs twice": (
        "once",
        "toysub",
        'echo "job $number is queued"',
        'exec 9>&-\n[ -n "${AGAIN-}" ] || AGAIN=1 "$bin/toysub" -n "$processors" "$1"'
        ' <"$number/script" >/dev/null\necho "job $number is queued"',
        "made 2 jobs",
    ),
    "a listing hides names": (
        "listing", "toylist", '$state $name"', '$state job"', "is not listed under its name",
    ),
    "a lost answer is repeated": (
        "lost answer", "toylist", '$state $name"', '$state job"', "ran",
    ),
    "a cancel does nothing": (
        "cancel running", "toydel", 'kill -TERM -"$pid"', "exit 0", "expected that j1/1/0/1 has",
    ),
    "a listing shows no ended job's status": (
        "job", "toyrun", 'echo ended "$status"', "echo ended -", "no exit status",
    ),
    "an end at the time limit is told as another one": (
        "time limit", "toyrun", 'echo late -', "echo ended 1", "told as exited, exit status 1",
    ),
    "variables are lost": (
        "quoting", "toyrun", 'sh "$number/script"', 'env sh "$number/cut"', "as its output",
    ),
    "names are cut": (
        "listing", "toysub", 'echo "$1" >', 'echo "$1" | cut -c1-30 >', "under its number: job 2",
    ),
    "the number is another one": (
        "listing", "toysub", 'echo "job $number', 'echo "job 7$number', "as job 71, listed as 1",
    ),
}  # fmt: skip
"""A check, and how a command is spoilt so that the check fails, with what it says."""


@pytest.mark.live
@pytest.mark.parametrize("spoilt", list(SPOILT))
def test_the_kit_finds_a_spoilt_batch_system(
    queue: ToyQueue, installed: Path, tmp_path: Path, spoilt: str
) -> None:
    check, command, old, new, text = SPOILT[spoilt]
    queue.replace(command, old, new)
    found = conformance(queue, installed, tmp_path, "--only", check, "--limit", "5")
    result, told = found[check]
    expected = "warning" if "status" in spoilt else "failed"
    assert (result, text in told) == (expected, True), found


@pytest.mark.live
def test_its_template_and_the_doctor_know_it(
    queue: ToyQueue, installed: Path, tmp_path: Path
) -> None:
    help_text = run("koala.cli", "init", "--help", package=installed, folder=tmp_path).stdout
    assert "toy         an agent in front of a toy queue" in help_text
    words: tuple[str, ...] = ("init", "toy", "--site", "mine", "--daemon", "127.0.0.1:1")
    ran = run("koala.cli", *words, package=installed, folder=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "mine.toml\n"), ran.stderr
    config = tmp_path / "mine.toml"
    text = config.read_text(encoding="utf-8")
    lrm = queue.lrm().partition("environment")[2]
    text = text.replace("~/.local/state/koala/mine", str(tmp_path / "state"))
    config.write_text(f"{text}environment{lrm}", encoding="utf-8")
    words = ("doctor", str(config))
    ran = run("koala_agent", *words, package=installed, folder=tmp_path)
    assert f"next, `koala-agent doctor {config} --probe` submits a small job" in ran.stderr
    ran = run("koala_agent", *words, "--probe", package=installed, folder=tmp_path)
    assert "--probe` submits" not in ran.stderr
    answer = "toy answers: it tells no processors, so Koala counts on 4 of its own (tried with 0.1)"
    assert f"ok      batch system: {answer};" in ran.stdout, ran.stdout
    assert "ok      probe job: node " in ran.stdout, "its dialect takes jobs without a folder"


@pytest.mark.live
async def test_a_grid_uses_it_beside_another_site(
    queue: ToyQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = install_toy(tmp_path / "package")
    module = package / "koala_toy" / "__init__.py"
    text = module.read_text(encoding="utf-8")
    module.write_text(text.replace('tried_with="0.1"', 'tried_with=""'), encoding="utf-8")
    monkeypatch.setenv("KOALA_TEST_PATH", str(package))
    sites = {"toy": 4, "delft": 4}
    with live_grid(tmp_path / "grid", sites=sites, more={"toy": queue.lrm()}) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            job = (
                await client.submit(
                    '+(&(resourceManagerContact="toy")(executable=/bin/echo)(arguments=a)(count=3))'
                    '(&(resourceManagerContact="delft")(executable=/bin/echo)(arguments=b)(count=2))'
                )
            ).job
            assert await client.wait(job) == "Finished"
            shown = await client.show(job)
            assert [part["site"] for part in shown["parts"]] == ["toy", "delft"]
            (site,) = [one for one in await client.sites() if one["site"] == "toy"]
            assert site["notice"] == "its dialect of toy was not tried against a live batch system"
            assert site["processors"] == 4
            endless = '&(resourceManagerContact="toy")(executable=/bin/sleep)(arguments=600)'
            job = (await client.submit(endless)).job
            await grid.phase(client, job, "Running")
            await client.cancel(job)
            assert await client.wait(job) == "Cancelled"
            await grid.nothing_left(f"{job}/")
            await until(lambda: not queue.states() & {"queued", "running"})


# Packages that are wrong -------------------------------------------------------------------------


def parse(kind: str) -> None:
    text = f'{AGENT}{SITE}[lrm]\nkind = "{kind}"\n'
    parse_config(text, source="mine.toml", folder=Path("/"))


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("tooy", r"lrm.kind = 'tooy' \(expected one of emulated, .*, toy; did you mean toy\?"),
        (
            "gone",
            "'gone': no_such_module:SYSTEM of wrong cannot be loaded: ModuleNotFoundError",
        ),
        ("json", r"json:loads of wrong is of type function \(expected a BatchSystem\)"),
        ("copy", r"koala_toy:SYSTEM of wrong is of kind 'toy' \(expected the entry point's name\)"),
    ],
)
def test_a_kind_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, text: str
) -> None:
    points = {
        "gone": "no_such_module:SYSTEM",
        "json": "json:loads",
        "copy": "koala_toy:SYSTEM",
        "slurm": "no_such_module:SYSTEM",
    }
    monkeypatch.syspath_prepend(install(tmp_path / "wrong", points, name="wrong"))
    with pytest.raises(ConfigError, match=text):
        parse(kind)
