"""Share claims, wishes and expectations between the tests of dialects."""

from __future__ import annotations

from pathlib import Path

from koala.common.protocol.messages import Resources
from koala.errors import LocalManagerError
from koala_agent.lrm.batch.gridengine import GridEngine
from koala_agent.lrm.batch.slurm import Slurm
from koala_agent.lrm.dialect import BatchJob, Dialect, JobState
from koala_agent.lrm.local_manager import Placeholder, RequestRefusedError

SLURM = Slurm(partition="batch", account="physics", options=("--constraint=fast",))


GRID_ENGINE = GridEngine(parallel_environment="grid", queue="batch")
CLOCK = "1000 2026-11-30T12:00:00 2026-11-30T11:00:00"
"""Time of the cell at which bookings are listed."""
UNBOOKED = f"{CLOCK}\n<none/>"


def placeholder(**changes: object) -> Placeholder:
    given = {
        "claim": "j12/1/0/1",
        "processors": 3,
        "time_limit_s": 601.0,
        "argv": ("/usr/bin/python3", "starter.py", "it's here"),
        "directory": Path("/scratch/work folder"),
        **changes,
    }
    return Placeholder(**given)  # type: ignore[arg-type]


def row(number: str, state: JobState, **more: object) -> BatchJob:
    return BatchJob(number=number, name="koala-ab-j1.1.0.1", state=state, **more)  # type: ignore[arg-type]


ALWAYS = (
    *("hostCount", "tasksPerNode", "cpusPerTask", "minMemory"),
    *("gpus", "gpuType", "constraint", "licenses", "exclusive", "reservation"),
)


WISHES = {"queue": "gpu", "project": "ocean", "hosts": 2, "memory_min_mb": 900}


def options(dialect: Dialect, **wishes: object) -> list[str]:
    processes = wishes.pop("processes", 1)
    asked = placeholder(processes=processes, resources=Resources(**wishes))  # type: ignore[arg-type]
    argv = dialect.submit(asked, name="n", script="").argv
    if isinstance(dialect, Slurm):
        plain = dialect.submit(placeholder(), name="n", script="").argv
        return [word for word in argv if word not in plain]
    values = ("-q", "-P", "-l")
    found = [" ".join(argv[i : i + 2]) for i, word in enumerate(argv) if word in values]
    return [option for option in found if "h_rt" not in option]


RICH = {
    "gpus": 4,
    "gpu_type": "a100",
    "constraint": "ib&rome",
    "licenses": (("matlab", 2), ("ansys", 1)),
    "qos": "long",
    "tasks_per_host": 2,
    "is_exclusive": True,
}


REFUSED, WRONG, AWAY = "refused", "wrong", "away"


def kind_of(error: LocalManagerError) -> str:
    if isinstance(error, RequestRefusedError):
        assert not error.transient
        return REFUSED
    return AWAY if error.transient else WRONG
