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
from koala_agent.lrm.batch_system import find_system, known_kinds, known_systems
from koala_agent.lrm.dialect import NAME_MAX
from tests.examples.dialect_reference import written
from tests.examples.toy import PAGE, ToyQueue, install, install_toy, toy_queue
from tests.live.grid import ROOT, live_grid, until

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
    assert page == written(page), "python -m tests.examples.dialect_reference writes it"
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
def test_a_listing_that_forgets_ended_jobs_is_enough(
    queue: ToyQueue, installed: Path, tmp_path: Path
) -> None:
    for word in ("ended", "cancel"):
        skip = f'[ "${{state#{word}}}" = "$state" ] || continue'
        queue.replace("toylist", "  read -r name", f"  {skip}\n  read -r name")
    chosen = ("job", "lost answer", "next agent", "cancel running", "cancelled by others")
    words = [word for name in chosen for word in ("--only", name)]
    found = conformance(queue, installed, tmp_path, *words, "--limit", "6")
    assert {name: found[name][0] for name in chosen} == {
        "job": "warning",
        "lost answer": "ok",
        "next agent": "warning",
        "cancel running": "ok",
        "cancelled by others": "warning",
    }, found


@pytest.mark.live
def test_an_error_of_the_dialect_is_told_with_its_place(
    queue: ToyQueue, installed: Path, tmp_path: Path
) -> None:
    module = installed / "koala_toy" / "__init__.py"
    text = module.read_text(encoding="utf-8")
    module.write_text(text.replace("if len(row) == 4", ""), encoding="utf-8")
    queue.replace("toylist", "flock 9", "flock 9; echo odd")
    found = conformance(queue, installed, tmp_path, "--only", "listing", "--limit", "5")
    result, told = found["batch system"]
    assert result == "failed"
    assert "a mistake in `read_jobs` of the dialect (__init__.py, line" in told
    assert "exit status: 0, but the dialect does not accept the answer" in told
    assert "standard output: odd\n" in told


@pytest.mark.live
def test_without_a_listing_that_works_no_other_check_is_made(
    queue: ToyQueue, installed: Path, tmp_path: Path
) -> None:
    queue.replace("toylist", "flock 9", 'flock 9; [ ! -e 1 ] || { echo "no server" >&2; exit 3; }')
    ran = run_kit(queue, installed, tmp_path, "--limit", "2")
    assert ran.returncode == 1
    ready, *failed, left_out = ran.stdout.splitlines()
    assert ready.startswith("ok      batch system: ")
    assert failed == [
        "FAILED  listing: toylist: no server",
        "        failed command: toylist",
        "        exit status: 3",
        "        standard output: nothing",
        "        standard error: no server",
    ]
    others = ", ".join(name for name in CHECKS if name != "listing")
    assert left_out == f"left out, as they need `listing`: {others}"


@pytest.mark.live
def test_a_cancel_that_fails_is_shown_with_its_answer(
    queue: ToyQueue, installed: Path, tmp_path: Path
) -> None:
    queue.replace("toydel", 'kill -TERM -"$pid"', 'printf "not\\nyours" >&2; exit 4')
    found = conformance(queue, installed, tmp_path, "--only", "cancel running", "--limit", "2")
    result, told = found["cancel running"]
    assert result == "failed"
    first, command, *answer = told.splitlines()
    assert "expected that j1/1/0/1 has ended); the last: j1/1/0/1 runs" in first
    assert re.fullmatch(r"failed command(, \d+ times)?: toydel 1", command)
    assert answer == [
        "exit status: 4", "standard output: nothing", "standard error: ", "  not", "  yours",
    ]  # fmt: skip


@pytest.mark.live
@pytest.mark.parametrize(
    ("written", "factor", "limit", "result", "told"),
    [
        ("math.ceil({} / 4)", 4, "5", "ok", "with a limit of 5 s (kept as 8 s)"),
        ("math.floor({} / 4)", 4, "5", "failed", "before its limit of 5 s"),
        ("math.ceil({} / 3600)", 3600, "90", "warning", "--time-limit 2700 waits for so long"),
        ("0 * math.ceil({})", 1, "2", "failed", "is the same for a time limit of 2 s"),
    ],
    ids=["rounded up", "rounded down", "hours", "without limits"],
)
def test_a_batch_system_may_count_other_units_of_time(
    queue: ToyQueue,
    installed: Path,
    tmp_path: Path,
    written: str,
    factor: int,
    limit: str,
    result: str,
    told: str,
) -> None:
    module = installed / "koala_toy" / "__init__.py"
    text = module.read_text(encoding="utf-8")
    old = "math.ceil(placeholder.time_limit_s)"
    assert old in text
    module.write_text(
        text.replace(old, written.format("placeholder.time_limit_s")), encoding="utf-8"
    )
    queue.replace("toysub", "limit=$OPTARG", f"limit=$((OPTARG * {factor}))")
    words = ("--only", "time limit", "--time-limit", limit)
    found = conformance(queue, installed, tmp_path, *words, "--limit", "8")
    assert (found["time limit"][0], told in found["time limit"][1]) == (result, True), found


def test_the_kit_refuses_what_it_cannot_try(
    queue: ToyQueue, installed: Path, tmp_path: Path
) -> None:
    config = tmp_path / "mine.toml"
    for lrm, words, text in (
        ("", (), "conformance cannot be tried there (expected a batch system whose commands"),
        (queue.lrm(), ("--only", "speed"), "--only 'speed' (expected one of listing, job,"),
    ):
        config.write_text(f"{AGENT}{SITE}{lrm}", encoding="utf-8")
        command = ("conformance", str(config), *words)
        ran = run("koala_agent", *command, package=installed, folder=tmp_path)
        assert (ran.returncode, text in ran.stderr) == (2, True), ran.stderr


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
        ("tooy", r"lrm.kind = 'tooy': allowed is one of emulated, .*, toy; did you mean toy\?"),
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


@pytest.mark.usefixtures("installed")
def test_a_wrong_package_disturbs_nobody_else_and_replaces_nothing_of_koala(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = find_system("slurm")
    points = {"gone": "no_such_module:SYSTEM", "slurm": "koala_toy:SYSTEM"}
    monkeypatch.syspath_prepend(install(tmp_path / "wrong", points, name="a-wrong"))
    assert find_system("slurm") is ours
    assert ours in known_systems()
    assert {"gone", "toy"} <= set(known_kinds())
    assert "gone" not in {system.kind for system in known_systems()}
    with pytest.raises(ConfigError, match="did you mean speed"):
        parse_config(f"{AGENT}{SITE}[lrm]\nspeeed = 2\n", source="mine.toml", folder=tmp_path)


@pytest.mark.usefixtures("installed")
def test_of_two_packages_with_a_kind_the_same_one_counts_on_every_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("another", "zebra"):
        points = {"toy": "no_such_module:SYSTEM"}
        monkeypatch.syspath_prepend(install(tmp_path / name, points, name=name))
    with pytest.raises(ConfigError, match="no_such_module:SYSTEM of another cannot be loaded"):
        find_system("toy")
