"""`koala replay`: the story of a journal, what if, clear words about damage (promises 4, 8, 10).

The journal is that of a simulated grid, written as a daemon writes it.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from koala.core.model.values import FileName, SiteName
from koala.daemon.storage.journal import Journal
from koala.daemon.storage.records import Batch
from tests.cli.command import environment, koala, koala_here
from tests.harness.builders import a_component, a_spec
from tests.lab.sim.journal_replay.past import Grid, written


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three jobs, one of which waits for a file and for other users."""
    grid = Grid(sites={"delft": 8, "leiden": 16}, run_s={"j2": 30.0})
    grid.at(1.0, lambda: grid.world.add_replica(FileName("f"), SiteName("delft"), 50_000_000))
    grid.local_job("leiden", 12, at=5.0, run_s=95.0)
    grid.submit("j1", a_spec(4, 2), at=10.0)
    grid.submit("j2", a_spec(a_component(8, "leiden"), file="f"), at=20.0)
    grid.submit("j3", a_spec(2), at=30.0)
    grid.told(600.0)
    return written(grid.records(), tmp_path_factory.mktemp("state"))


def document(*words: str) -> dict[str, Any]:
    """Return what `koala replay ... --json` prints."""
    run = koala_here("replay", *words, "--json")
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def test_the_story_says_what_happened_and_what_came_of_it(journal: Path) -> None:
    run = koala_here("replay", str(journal))
    assert run.returncode == 0, run.stderr
    story = run.stdout
    lines = [" ".join(line.split()[2:]) for line in story.splitlines() if ":" in line[:10]]
    assert "j1 submitted: components of 4, 2 processors" in lines
    first = story.index("j1/1/0/1 granted")
    assert story.index("-> j1 Claiming: placed on".replace("j1 ", "j1  ")) < first
    assert first < story.index("-> j1  Running: all components passed the barrier")
    assert "-> j2  copies f from delft to leiden: j2/1/t1, 50,000,000 bytes" in story
    assert "reports 8 idle, ask 0 included" not in story, "nothing came of it"


def test_the_summary_has_every_job_and_site(journal: Path) -> None:
    found = document(str(journal), "--summary")
    assert found["story"] == []
    jobs = {job["job"]: job for job in found["jobs"]}
    assert {job["phase"] for job in jobs.values()} == {"Finished"}
    assert jobs["j1"]["sites"] == ["delft", "delft"]
    assert jobs["j2"]["sites"] == ["leiden"]
    assert jobs["j2"]["placed_at"] == pytest.approx(100.0, abs=1.0), "other users left"
    assert jobs["j2"]["claiming_tries"] == 1
    assert jobs["j2"]["held_processor_s"] == pytest.approx(8 * 12.5, rel=0.1)
    sites = {site["site"]: site for site in found["sites"]}
    assert (sites["leiden"]["claims"], sites["leiden"]["granted"]) == (1, 1)
    assert sites["leiden"]["run_processor_s"] == pytest.approx(8 * 30.0, rel=0.01)
    assert found["figures"]["finished"] == 3
    text = koala_here("replay", str(journal), "--summary").stdout
    assert "JOB" in text
    assert "PROCESSORS" in text
    assert "submitted:" not in text


def test_instants_bound_the_story_and_the_run(journal: Path) -> None:
    story = document(str(journal), "--from", "+15", "--until", "+25")["story"]
    assert all(15.0 <= one["at"] <= 25.0 for one in story)
    early = koala_here("replay", str(journal), "--until", "1960-01-01T00:00:00")
    assert (early.returncode, early.stdout) == (2, "")
    assert "where it begins, or later" in early.stderr
    found = document(str(journal), "--until", "+25")
    assert [job["job"] for job in found["jobs"]] == ["j1", "j2"]
    assert found["figures"]["open"] == 1


def test_what_if_shows_three_runs_side_by_side(journal: Path) -> None:
    words = [str(journal), "--with", "placement=WF", "--with", "claiming.L=0.5"]
    found = document(*words)
    assert found["changes"] == {"placement": "WF", "claim_fraction": 0.5}
    assert found["changed_from"] == {"placement": "CF", "claim_fraction": 0.75}
    assert found["fidelity"]["same_sites"] == 3
    assert found["fidelity"]["start_off_s"]["max"] < 0.1
    (j2,) = (row for row in found["jobs"] if row["job"] == "j2")
    held = [j2[column]["held_processor_s"] for column in ("recorded", "simulated", "what_if")]
    assert held == pytest.approx([8 * 12.5, 8 * 12.5, 8 * 25.0], rel=0.1)
    assert found["figures"]["difference"]["held_processor_s"] == pytest.approx(100.0, rel=0.1)
    text = koala_here("replay", *words).stdout
    assert "AS IT WAS" in text
    assert "claim_fraction = 0.5 (was 0.75)" in text
    assert "3 of 3 jobs" in text
    one = koala_here("replay", *words, "--job", "j2").stdout
    assert "held_processor_s" in one


def test_a_what_if_may_be_had_in_several_ways(journal: Path) -> None:
    words = [str(journal), "--with", "claiming.L=0.75,0.5", "--with", "placement=WF"]
    found = document(*words)["figures"]
    assert [*found] == ["recorded", "simulated", "claiming.L=0.75", "claiming.L=0.5"]
    one = document(str(journal), "--with", "placement=WF", "--with", "claiming.L=0.5")["figures"]
    assert found["claiming.L=0.5"] == one["what_if"] != found["claiming.L=0.75"]
    lines = koala_here("replay", *words).stdout.splitlines()
    names = [line.split("  ")[0] for line in lines[2:7]]
    assert names == ["RUN", "AS IT WAS", "SIMULATED", "claiming.L=0.75", "claiming.L=0.5"]
    wrong = koala_here("replay", *words, "--with", "hold_s=1,2")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "claiming.L=0.75,0.5 has several values already" in wrong.stderr
    assert koala_here("replay", *words, "--job", "j1").returncode == 2


@pytest.mark.slow
def test_a_replay_is_the_same_in_any_process_under_any_hash_seed(journal: Path) -> None:
    """Promise 8, and the same for a what-if."""
    words = ("replay", str(journal), "--with", "placement=WF", "--json")
    runs = [koala(*words, PYTHONHASHSEED="4242"), koala_here(*words)]  # the second one is random
    assert {run.returncode for run in runs} == {0}, runs[0].stderr
    assert runs[0].stdout == runs[1].stdout
    with closing(sqlite3.connect(journal)) as connection:
        recorded = connection.execute("SELECT digest FROM digest").fetchone()[0]
    assert json.loads(runs[0].stdout)["digest"] == recorded


def test_a_replay_needs_neither_grpc_nor_drawing() -> None:
    code = (
        "import sys; from koala.cli.main import main; main(['replay', '--help'])\n"
        "import koala.lab.commands.past_run, koala.lab.commands.replay_text, "
        "koala.daemon.storage.journal_reader\n"
        "print([m for m in ('grpc', 'rich', 'matplotlib') if m in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert run.stdout.rstrip().endswith("[]"), run.stdout.splitlines()[-1]


# --- what is wrong --------------------------------------------------------------------------------


@pytest.fixture
def copied(journal: Path, tmp_path: Path) -> Path:
    """A copy to damage, with its mark."""
    for name in ("journal.db", "journal.mark"):
        (tmp_path / name).write_bytes((journal.parent / name).read_bytes())
    return tmp_path / "journal.db"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE event SET at = at + 1 WHERE seq = 9", "event 9 does not match its checksum"),
        ("DELETE FROM event WHERE seq > 40", "ends with event 40, but event"),
        (
            "UPDATE digest SET digest = 'other'",
            "gives another state than the one that",
        ),
        ("PRAGMA user_version = 99", "journal format 99: this version of Koala reads 2"),
    ],
)
def test_a_damaged_journal_is_refused_before_anything_is_told(
    copied: Path, change: str, said: str
) -> None:
    with closing(sqlite3.connect(copied)) as connection, connection:
        connection.execute(change)
    for words in ((), ("--with", "placement=WF"), ("--until", "+1")):
        run = koala_here("replay", str(copied), *words)
        assert (run.returncode, run.stdout) == (1, "")
        assert said in run.stderr


def test_a_journal_that_another_version_wrote_is_refused_by_the_event(copied: Path) -> None:
    """Chain and mark are right, but a policy's answer is missing."""
    grid = Grid(sites={"delft": 8})
    grid.submit("j1", a_spec(4), at=10.0)
    grid.told(100.0)
    records = grid.records()
    place = next(index for index, record in enumerate(records) if record.answers)
    object.__setattr__(records[place], "answers", [])
    journal = Journal.open(copied.parent / "other")
    assert list(journal.records()) == []
    journal.append(Batch(records=records))
    journal.close()
    run = koala_here("replay", str(journal.path))
    assert run.returncode == 1
    kind = type(records[place].event).__name__
    assert f"event {place + 1} ({kind}) cannot be replayed" in run.stderr


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--with", "placement=XF"), 2, "'XF' (expected one of CF, WF"),
        (("--with", "claiming.Q=1"), 2, "expected a policy: placement"),
        (("--from", "yesterday"), 2, "--from yesterday (expected +SECONDS"),
        (("--job", "j9"), 1, "no job 'j9'; it has j1 to j3"),
    ],
)
def test_wrong_words_are_named_with_what_is_allowed(
    journal: Path, words: tuple[str, ...], status: int, said: str
) -> None:
    run = koala_here("replay", str(journal), *words)
    assert (run.returncode, run.stdout) == (status, "")
    assert said in run.stderr


def test_where_there_is_no_journal_that_is_said(tmp_path: Path) -> None:
    run = koala_here("replay", str(tmp_path))
    assert run.returncode == 1
    assert f"{tmp_path / 'journal.db'}: no journal here" in run.stderr
