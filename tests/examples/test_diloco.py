"""DiLoCo over components that join, give way and are lost, by a world that the test scripts."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from koala import Client
from tests.cli.grids import GRID, up
from tests.examples.stage import EXAMPLES, Stage

pytestmark = [pytest.mark.live]

PROGRAM = "diloco/diloco.py"
WORDS = ("--steps", "1000000", "--pace", "0.05")
STEPS = 40
"""So many are enough for the loss."""
STEP = re.compile(r"step (\d+) with (\d+) components, loss ([\d.]+)")


def test_components_come_and_go_and_the_loss_falls_on(tmp_path: Path) -> None:
    """The third joins, the second gives way, and the lead is lost: the third leads then."""
    with Stage(tmp_path, [1, 1, 1, 1]) as stage:
        stage.resize([0, 1])
        stage.start(PROGRAM, *WORDS, ranks=[0, 1])
        said = stage.until(0, "with 2 components")
        stage.resize([0, 1, 2])
        stage.start(PROGRAM, *WORDS, ranks=[2])
        said += stage.until(0, "with 3 components")
        stage.resize([0, 1, 2], leaving=[1])
        said += stage.until(0, "with 2 components")
        assert "gives way" in "".join(stage.until(1, "gives way"))
        assert stage.running[1].wait() == 0
        stage.resize([0, 2])
        stage.running[0].kill()
        later = stage.until(2, "leads from")
        stage.resize([2, 3])
        stage.start(PROGRAM, *WORDS, ranks=[3])
        later += stage.until(2, "with 2 components")
        while int(STEP.findall(later[-1])[0][0]) < STEPS:
            later += stage.until(2, "with 2 components")
        stage.resize([2, 3], leaving=[2, 3])
        ended = stage.finish()
        said.append(ended[0].output)
        later.append(ended[2].output)
    assert [process.status for process in ended] == [-9, 0, 0, 0], ended
    before, after = STEP.findall("".join(said)), STEP.findall("".join(later))
    numbers = [int(step) for step, _count, _loss in (*before, *after)]
    # The lead may have died after a step of which nobody else has the outcome.
    assert numbers == sorted(numbers)
    assert int(after[0][0]) - int(before[-1][0]) in (0, 1)
    losses = [float(loss) for _step, _count, loss in (*before, *after)]
    assert max(losses[len(before) :]) < losses[0]
    assert losses[-1] < losses[0] / 4
    assert [count for _step, count, _loss in after][-1] == "2"


def test_a_component_that_comes_after_the_last_step_ends_well(tmp_path: Path) -> None:
    with Stage(tmp_path, [1, 1]) as stage:
        stage.resize([0])
        stage.start(PROGRAM, "--steps", "1", "--pace", "0", ranks=[0])
        assert stage.running[0].wait() == 0
        stage.resize([0, 1])
        stage.start(PROGRAM, "--steps", "1", "--pace", "0", ranks=[1])
        assert [process.status for process in stage.finish()] == [0, 0]
    assert not (stage.work_folder(1) / "result.json").exists()


@pytest.mark.slow
def test_a_job_that_is_resized_while_it_trains_restarts_nothing(tmp_path: Path) -> None:
    text = GRID.replace("[parameters]", "[parameters]\nresize_step_s = 0.5\ngive_way_s = 20.0")
    python = sys.executable
    with up(tmp_path, text) as grid, Client(grid.address, timeout=120.0) as client:
        definitions = ("-D", f"PYTHON={python}", "-D", "STEPS=150", "-D", "PACE=0.1")
        run = grid.koala("submit", *definitions, str(EXAMPLES / "diloco" / "diloco.rsl"))
        assert run.returncode == 0, run.stderr
        job = client.job(run.stdout.strip())
        said = ""
        wanted = [(2, "with 4 components"), (4, "with 2 components"), (4, "with 4 components")]
        for part in job.logs(component="0", stream="stdout", follow=True, timeout=120.0):
            said += part.text
            if wanted and wanted[0][1] in part.text:
                client.resize(job.job, wanted.pop(0)[0])
        assert not wanted, said
        assert client.wait(job.job) == "Finished", job.why()
        numbers = [int(step) for step, _count, _loss in STEP.findall(said)]
        assert numbers == list(range(1, 151))
        charges = client.show(job.job).charges  # an attempt that never started is no restart
        ran = {charge.claim.split("/")[1] for charge in charges if charge.passed_at is not None}
        assert len(ran) == 1
