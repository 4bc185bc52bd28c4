"""What is run: KOALA's experiment at a setting (`koala.sim.das`)."""

from __future__ import annotations

from dataclasses import replace

from koala.sim.das.run import run as run_once
from koala.sim.das.setting import Setting
from koala.sim.papers.paper import Level, Outcome, Run

LEVELS = (Level(name="the experiment", is_near=True),)


def run(wanted: Run) -> Outcome:
    """One run; the effort says how many jobs are submitted."""
    assert isinstance(wanted.setting, Setting)
    setting = replace(wanted.setting, jobs=round(wanted.effort.length))
    found = run_once(setting, wanted.seed)
    return Outcome(values=found.values, is_saturated=found.unfinished > 0)
