"""Files of a reproduction beside its report: raw runs and provenance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from koala.lab.papers.sweep import Plan
from koala.lab.sim.campaign import parts
from koala.lab.sim.campaign.execution import Campaign
from koala.lab.sim.campaign.parts import Part
from koala.lab.sim.runs import Run


def options_of(wanted: Plan) -> dict[str, Any]:
    """Return the options that determine the results of a plan."""
    return {
        "paper": wanted.paper.name,
        "effort": wanted.effort.name,
        "figure": wanted.figure,
        "seed": wanted.seed,
        "reps": wanted.effort.replications,
        "length": wanted.effort.length,
    }


def write_runs(wanted: Plan, made: Campaign[Run], folder: Path) -> None:
    """Write a line for each finished run."""
    names = wanted.ids(run for run, _ in made.finished)
    rows = (
        (
            {
                "id": name,
                "setting": str(run.setting),
                "seed": run.seed,
                "length": run.effort.length,
            },
            one,
        )
        for name, (run, one) in zip(names, made.finished, strict=True)
    )
    parts.write_runs(folder, rows)


def write_provenance(
    wanted: Plan,
    made: Campaign[Run],
    folder: Path,
    *,
    command: str,
    part: str | None = None,
    merged: Sequence[Part] = (),
    **times: object,
) -> None:
    """Write everything about a result that is not the result itself."""
    parts.write_provenance(
        folder,
        made,
        options=options_of(wanted),
        code=wanted.code,
        wanted=len(wanted.runs()),
        merged=merged,
        command=command,
        part=part,
        **times,
    )


def merge(wanted: Plan, merged: Sequence[Part]) -> Campaign[Run]:
    """Collect the runs of all parts in the order of the plan. Raises ConfigError."""
    runs = wanted.runs()
    return parts.merge(runs, wanted.ids(runs), merged, code=wanted.code)
