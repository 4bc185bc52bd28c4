"""The queue as each batch system lists it, for expected starts: sizes, limits and order."""

from __future__ import annotations

import json
import math

from koala_agent.lrm.batch.gridengine import GridEngine
from koala_agent.lrm.batch.oar import OAR
from koala_agent.lrm.batch.pbs import PBS
from koala_agent.lrm.dialect import Dialect, QueueRow
from koala_agent.transport.interface import Answer
from tests.lrm.batch.test_samples import SAMPLES

LIMIT = '<hard_request name="h_rt" resource_contribution="0.000000">{}</hard_request>'


def rows(dialect: Dialect, out: str) -> dict[str, QueueRow]:
    """The rows of a listing by number, in their order."""
    found = dialect.read_queue(Answer(status=0, out=out, err=""))
    return {row.number: row for row in found}


def job(number: int, state: str, prio: str, *, name: str = "other", limit: str = "") -> str:
    """A job of Grid Engine."""
    begun = "<JAT_start_time>2026-11-29T09:00:00</JAT_start_time>" if "q" not in state else ""
    return (
        f"<job_list><JB_job_number>{number}</JB_job_number><JAT_prio>{prio}</JAT_prio>"
        f"<JB_name>{name}</JB_name><state>{state}</state>{begun}<slots>4</slots>{limit}</job_list>"
    )


def test_a_queue_of_grid_engine() -> None:
    """A gated job has no priority, and the place of the next one that was submitted."""
    listed = [
        job(7, "r", "0.6", limit=LIMIT.format(7200)),
        job(8, "r", "0.6"),
        job(12, "qw", "0.55000"),
        job(10, "qw", "0.50500", limit=LIMIT.format(60)),
        job(9, "hqw", "0.00000", name="koala-ab-j1.1.0.1"),
        job(11, "hqw", "0.00000", name="held"),
        job(13, "Eqw", "0.9"),
    ]
    found = rows(
        GridEngine(parallel_environment="smp"),
        f"2026-11-29T10:00:00\n<job_info><queue_info>{''.join(listed)}</queue_info></job_info>",
    )
    assert {number: row.left_s for number, row in found.items()} == {
        "7": 3600.0,
        "8": math.inf,
        "12": math.inf,
        "9": math.inf,
        "10": 60.0,
    }
    assert list(found) == ["7", "8", "12", "9", "10"]
    assert [row.is_running for row in found.values()] == [True, True, False, False, False]
    assert {row.processors for row in found.values()} == {4}


def test_a_queue_of_oar() -> None:
    """Advance reservations and held jobs of users are left out, and best-effort jobs end."""
    listed = (SAMPLES / "oar-2.6.1" / "jobs.json").read_text(encoding="utf-8")
    jobs = json.loads(listed)
    jobs["10"] = {**jobs["7"], "name": "koala-ab-j1.1.0.2"}
    found = rows(OAR(), f"{jobs['4']['startTime'] + 100}\n{json.dumps(jobs)}")
    assert {number: (row.processors, row.left_s) for number, row in found.items()} == {
        "4": (4, 200.0),
        "8": (16, 300.0),
        "10": (1, 300.0),
    }
    assert found["4"].is_running


def test_a_queue_of_pbs() -> None:
    whole = json.loads((SAMPLES / "pbs-made" / "jobs.json").read_text(encoding="utf-8"))
    whole["Jobs"]["21.pbs1"]["resources_used"] = {"walltime": "00:01:00"}
    whole["Jobs"]["24.pbs1"]["Job_Name"] = "held"
    found = rows(PBS(), json.dumps(whole))
    assert (found["21"].left_s, found["21"].is_running) == (31.0, True)
    assert (found["22"].left_s, found["22"].processors) == (91.0, 4)
    assert "24" not in found
    waiting = [int(number) for number, row in found.items() if not row.is_running]
    assert waiting == sorted(waiting)
