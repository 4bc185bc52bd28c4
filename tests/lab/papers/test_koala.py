"""The KOALA paper: what is run, what is claimed, and that a claim can fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from koala.lab.papers import judgement
from koala.lab.papers.koala import PAPER
from koala.lab.papers.koala.points import (
    CHANGES,
    EXPERIMENT,
    LARGER,
    LEVELS,
    LIGHT,
    SHAPES,
    Watched,
    changed,
    run,
)
from koala.lab.papers.koala.simulation.setting import Setting
from koala.lab.papers.markdown import as_markdown
from koala.lab.papers.sweep import plan
from koala.lab.papers.tables import document
from koala.lab.papers.verdicts import Verdict
from koala.lab.sim.runs import ARITHMETIC, Effort, Run
from koala.lab.sim.runs import Setting as Anything

TINY = Effort(name="tiny", replications=2, length=12, levels=LEVELS)


def change_of(setting: Setting) -> str:
    """The name of what is changed in a setting."""
    names = [
        name
        for name in CHANGES
        if setting == changed(replace(EXPERIMENT, local_load=setting.local_load), name)
    ]
    return names[0] if names else ""


def told(setting: Setting, metric: str) -> float:
    """Return the paper's values, in numbers of ours."""
    measure, _, group = metric.partition(".")
    change = change_of(setting)
    size = 72 if "72" in group else 36
    count = int(group.partition("x")[2].partition(".")[0] or 5)
    is_low, is_high = group.endswith("low"), group.endswith("high")
    slow = (4 if size == 72 else 1) * count * (2 if is_low else 0.5 if is_high else 1)
    if change == "S = 1":
        slow = slow * 0.75 if is_low else slow
    if change in ("whole", "small and whole", "atomic") or (change == "no preemption" and is_high):
        slow *= 2
    if change == "reliable":
        slow /= 2
    single = {
        "finished_percent": 100,
        "sharing_percent": 20,
        "lateness_s": 10,
        "transfer_s": 500 if change == "worst fit" else 300,
        "returned": {"claim at once": 0.1, "L fixed": 0.9}.get(change, 0.4),
        "failed_once_percent": 40,
        "failed_percent": 0,
        "tries_an_hour.high": 10,
        "tries_an_hour.low": 5,
        "wasted_percent": 30,
        "spread_failures": 0.2,
        "peak_busy": 88,
        "processors.begin": 310,
        "processors.end": 250,
        "utilization.arrivals.busy": 82,
        "utilization.arrivals.local": 70,
        "most_failures": 5,
        "finished.low": 250,
        "jobs.low": 250,
    }
    if metric in single:
        return float(single[metric])
    return {
        "placement_s": 100 * slow,
        "start_delay_s": 10 * slow,
        "response_s": 110 * slow,
        "failures_percent": (3 if change == "whole" else 20) + count + (2 if is_high else 0),
        "failures_per_job": 0.5,
        "coallocated_percent": 40 + 5 * count,
        "attempts": 1 + slow / 10 + (5 if is_high else 0),
        "placement_tries": 20 + (5 if is_high else 0),
        "claiming_tries": 4 + (5 if is_high else 0),
        "extra_claiming_tries": 3,
        "preemptions_per_job": 0.2 if is_low else 0,
        "processor_wasted_s": {"claim at once": 900, "atomic": 100}.get(change, 500),
    }[measure]


def as_the_paper_says(setting: Anything, metric: str) -> float:
    """All of its sentences are right here."""
    if setting == ARITHMETIC:
        return run(Run(setting=ARITHMETIC, seed=1, effort=TINY)).values[metric]
    if isinstance(setting, Watched):
        return {"finished_percent": 100.0, "most_skew_s": 0.0}.get(metric, 9.0)
    assert isinstance(setting, Setting)
    return told(setting, metric)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_changes_one_thing(change: str) -> None:
    other = changed(EXPERIMENT, change)
    assert other != EXPERIMENT
    assert change_of(other) == change


def test_a_watched_run_is_the_same_run() -> None:
    setting = replace(EXPERIMENT, local_load=0.2)
    plain = run(Run(setting=setting, seed=3, effort=TINY)).values
    watched = run(Run(setting=Watched(setting=setting), seed=3, effort=TINY)).values
    assert watched["checks"] > 0
    assert watched["most_skew_s"] == 0.0
    assert {name: watched[name] for name in plain if plain[name] == plain[name]} == {
        name: value
        for name, value in plain.items()
        if value == value  # noqa: PLR0124
    }


def test_jobs_larger_than_any_site_run_on_several() -> None:
    found = run(Run(setting=LARGER, seed=1, effort=TINY)).values
    assert found["finished_percent"] == 100.0
    assert found["coallocated_percent.all"] == 100.0
    assert SHAPES[0] == (36, 3)


LONGER = Effort(name="one", replications=1, length=500, levels=(LIGHT,))


@pytest.mark.long
def test_the_same_job_ends_where_errors_are_counted_as_the_daemon_counts_them() -> None:
    distinct = replace(LIGHT.setting.parameters, errors_counted="jobs")
    made = run(Run(setting=replace(LIGHT.setting, parameters=distinct), seed=2, effort=LONGER))
    assert made.values["finished_percent"] == 100


@pytest.mark.long
def test_a_job_that_does_not_end_refutes_that_all_do_and_the_report_says_why() -> None:
    """Its own failures counted a good site out for ever, and the other copy of its file is at the
    lost site."""
    wanted = {"1-7", "5.2-3"}
    claims = tuple(claim for claim in PAPER.claims if claim.id in wanted)
    planned = plan(replace(PAPER, figures=(), claims=claims), LONGER, seed=2)
    found = judgement.report(planned, planned.work().execute())
    assert {one.claim.id: one.verdict for one in found.claims} == dict.fromkeys(
        wanted, Verdict.FAILS
    )
    lines = as_markdown(found).splitlines()
    start = lines.index("### Counterexamples")
    assert lines[start + 2] == "- regular load 20 %, seed 2: not *finished, % = 100* (1-7, 5.2-3)"
    told = lines[start + 3 : lines.index("", start + 3)]
    assert told[0].startswith("  - j438 is Placing: ")
    assert all(one.startswith("    - ") for one in told[1:])
    assert max(map(len, told)) < 300, "each statement is a line of its own"
    whole = "; ".join([told[0].removeprefix("  - "), *(one[6:] for one in told[1:])])
    for text in (
        "no usable site holds its input file input438",
        "input438 is at site1 and site4 only",
        "site1 (unusable for 58.5 days after 8 consecutive errors, 8 of them with this job, until"
        " an administrator resumes it",
    ):
        assert text in whole
    (claim, _) = document(found)["claims"]
    (comparison,) = claim["levels"][0]["comparisons"]
    (example,) = comparison["counterexamples"]
    assert example["seed"] == 2
    assert example["notes"] == [whole]
