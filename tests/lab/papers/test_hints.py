"""The hints paper: what is run, what is claimed, that a claim can fail, and what readings do."""

from __future__ import annotations

from dataclasses import replace

from koala.lab.papers.hints.points import LEVELS, Compared, Point, run
from koala.lab.sim.runs import Effort, Run, Setting

TINY = Effort(name="tiny", replications=2, length=12, levels=LEVELS)
CURVES: dict[str, dict[float, float]] = {
    "NoNetwork": {0.0: 110, 0.2: 150, 0.4: 170, 0.6: 180, 0.8: 105, 1.0: 105},
    "PreferLocal": {0.0: 110, 0.2: 140, 0.4: 138, 0.6: 135, 0.8: 103, 1.0: 103},
    "Service": dict.fromkeys((0.0, 0.2, 0.4, 0.6, 0.8, 1.0), 100),
}
"""Figure 2, right side, as the text describes it."""
CLASSES: dict[str, dict[str, float]] = {
    "response.io": {"NoNetwork": 200, "PreferLocal": 150, "Service": 120},
    "response.cpu": {"NoNetwork": 140, "PreferLocal": 138, "Service": 95},
    "remote.io": {"NoNetwork": 0.6, "PreferLocal": 0.6, "Service": 0.4},
}


def as_the_paper_says(setting: Setting, metric: str) -> float:
    """All of its sentences are right here."""
    if isinstance(setting, Compared):
        return {"response": 90.0, "other_response": 100.0, "rate": 0.8}[metric]
    assert isinstance(setting, Point)
    if metric in CLASSES:
        return CLASSES[metric][setting.policy]
    others = {
        "response.all": CURVES[setting.policy][setting.io_fraction],
        "stretch.io": 1.5,
        "below_preferred.cpu": 0.1,
        "busiest_link": 0.95 if setting.io_fraction > 0.6 else 0.5,
    }
    return float(others[metric])


def test_the_jobs_that_are_compared_are_those_below_the_preferred_rate() -> None:
    effort = Effort(name="more", replications=1, length=100, levels=LEVELS)
    pair = Compared(policy="Service", other="PreferLocal")
    found = run(Run(setting=pair, seed=1, effort=effort)).values
    assert 0.5 <= found["rate"] < 1.0
    assert found["response"] > 0
    assert found["other_response"] > 0
    same = run(Run(setting=replace(pair, other="Service"), seed=1, effort=effort)).values
    assert same["response"] == same["other_response"]
