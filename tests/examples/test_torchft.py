"""DiLoCo by torchft over the sites of `koala up`: a group is lost, and comes back, twice.

`make test-frameworks` installs torchft, and runs this.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from koala import Client
from koala.client.sync import JobHandle
from tests.cli.grids import Up, marked_with, up
from tests.documents.blocks import blocks, missing, steps
from tests.examples.stage import EXAMPLES
from tests.tidy.sources import ROOT

PAGE = ROOT / "docs" / "guides" / "lost-sites.md"
DESCRIPTION = EXAMPLES / "frameworks" / "torchft.rsl"
MALLEABLE = EXAMPLES / "frameworks" / "torchft-malleable.rsl"
GROUP = EXAMPLES / "frameworks" / "torchft-group.rsl"
PYTHON = ROOT / "build" / "frameworks" / "torch" / "bin" / "python"
STEPS = 80
"""Many, because torch starts slowly: groups must come back before the others have done."""
MORE_STEPS = 240
"""For a group that is not asked for before another one has given way."""
LIMIT_S = 240.0


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[Up]:
    with up(tmp_path, None) as running:
        yield running
    assert marked_with(str(tmp_path)) == [], "torchft has left something"


@pytest.mark.frameworks
@pytest.mark.live
def test_the_others_go_on_and_a_lost_group_heals(grid: Up) -> None:
    with Client(grid.address, timeout=LIMIT_S) as client:
        job = client.job(_submit(grid, DESCRIPTION))
        _kill(_until(job, "group-2", r"^step \d+ with 3 groups"))
        _until(job, "group-1", r" with 3 groups(.|\n)* with 2 groups")  # it was missed
        lighthouse = _until(job, "lighthouse", r"^lighthouse .*\n").split()[1]

        again = client.job(_submit(grid, GROUP, "-D", f"LIGHTHOUSE={lighthouse}"))
        _kill(_until(again, "group-2", r"^step \d+ with 3 groups"))
        _until(again, "group-2", "^healed: ", attempt=2)

        phases = client.wait_all([job.job, again.job], timeout=LIMIT_S)
        assert phases == {job.job: "Finished", again.job: "Finished"}, job.why()
        assert "component group-2: signal 9" in str(job.why())

    logs = {label: _said(grid, job, label) for label in ("group-1", "group-2", "group-3")}
    back = _said(grid, again, "group-2")
    for label in ("group-1", "group-3"):
        made = re.findall(r"^step (\d+) with (\d) groups", logs[label], re.MULTILINE)
        numbers = [int(step) for step, _ in made]
        assert numbers == list(range(numbers[0], STEPS + 1)), logs[label]
        groups = "".join(count for _, count in made)
        # Lost and back, twice; the second time it may come back before the others go on.
        assert re.fullmatch("2*3+2+3+(2+3+)?", groups), groups
        assert _weights(logs[label]) == _weights(back), logs[label] + back
    assert "weights" not in logs["group-2"]
    shown = [line for end in ("-c group-2 j1", "stdout j2") for line in _shown(end)]
    assert missing(shown, logs["group-2"] + back) == []


def _submit(grid: Up, description: Path, *words: str, steps: int = STEPS) -> str:
    definitions = ("-D", f"PYTHON={PYTHON}", "-D", f"STEPS={steps}", *words)
    run = grid.koala("submit", *definitions, str(description))
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def _until(job: JobHandle, label: str, pattern: str, *, attempt: int = 1) -> str:
    """Follow what a component prints until the pattern is found; return all of it."""
    said = ""
    for part in job.logs(component=label, stream="stdout", follow=True, timeout=LIMIT_S):
        if part.attempt == attempt:
            said += part.text
        if re.search(pattern, said, re.MULTILINE):
            return said
    raise AssertionError(f"{label} has ended without {pattern!r}: {said}")


def _kill(said: str) -> None:
    """Kill the group that told its process."""
    found = re.search(r" is process (\d+)$", said, re.MULTILINE)
    assert found, said
    os.kill(int(found[1]), signal.SIGKILL)


def _said(grid: Up, job: JobHandle, label: str) -> str:
    return grid.koala("logs", "--stream", "stdout", "-c", label, job.job).stdout


def _weights(said: str) -> str:
    found = re.search(r"^weights (.*)$", said, re.MULTILINE)
    assert found, said
    return found[1]


def _shown(end: str) -> list[str]:
    """List the lines that the page shows after the command with this end."""
    session = next(block for block in blocks(PAGE) if block.language == "console")
    (step,) = [step for step in steps(session) if step.commands.endswith(end)]
    return step.shown


def test_the_page_shows_the_description() -> None:
    assert DESCRIPTION.read_text(encoding="utf-8") in [block.text for block in blocks(PAGE)]


@pytest.mark.frameworks
@pytest.mark.live
def test_groups_of_a_malleable_job_come_and_go(grid: Up) -> None:
    with Client(grid.address, timeout=LIMIT_S) as client:
        job = client.job(_submit(grid, MALLEABLE, steps=MORE_STEPS))
        _until(job, "0", r"^step \d+ with 3 groups")
        client.resize(job.job, 2)
        _until(job, "0", r" with 3 groups(.|\n)* with 2 groups")
        client.resize(job.job, 3)
        _until(job, "0", r" with 3 groups(.|\n)* with 2 groups(.|\n)* with 3 groups")
        assert client.wait(job.job, timeout=LIMIT_S) == "Finished", job.why()
    said = grid.koala("logs", "--stream", "stdout", job.job).stdout
    oldest = _said(grid, job, "0")
    made = re.findall(r"^step (\d+) with (\d) groups", oldest, re.MULTILINE)
    assert [int(step) for step, _ in made] == list(range(int(made[0][0]), MORE_STEPS + 1)), oldest
    assert re.fullmatch("[12]*3+2+3+[12]*", "".join(count for _, count in made)), oldest
    assert re.search("gives way after step|healed: continues at step", said), said
