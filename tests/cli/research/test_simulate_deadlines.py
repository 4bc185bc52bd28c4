"""`koala simulate deadlines`: the form that is a contract, its keys, and its refusals."""

from __future__ import annotations

import json

import pytest

from tests.cli.command import koala_here

BRIEF = ("--time", "20000", "--warmup", "2000", "--workers", "1")
METRICS = (
    "success_rate",
    "local_kill_rate",
    "total_load",
    "global_load",
    "local_load",
    "wasted",
    "local_response",
)


@pytest.mark.parametrize("policy", ["GP", "LP"])
def test_the_required_form_gives_the_required_keys(policy: str) -> None:
    form = (
        f"--policy {policy} --lp 0.7 --mp 10 --wait inf --local-load 0.3 --global-load 0.2"
        " --lead 1:3599 --sites 4x32 --seed 1 --reps 2 --json"
    )
    run = koala_here("simulate", "deadlines", *form.split(), *BRIEF)
    assert (run.returncode, run.stderr) == (0, "")
    found = json.loads(run.stdout)
    assert all(sorted(found[name]) == ["ci95", "mean"] for name in METRICS)
    assert 0 < found["success_rate"]["mean"] <= 100
    assert (found["local_kill_rate"]["mean"] > 0) == (policy == "GP")
    assert found["replications"] == 2


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--policy", "GS"), "--policy GS (expected one of GP, LP"),
        (("--lp", "0"), "--lp 0 (expected a number more than 0, at most 1"),
        (("--lead", "3599"), "--lead 3599 (expected LOW:HIGH"),
        (("--sites", "1x32"), "components = 2:1"),
        (("--killed", "saved"), "--killed saved (expected one of lost, requeue"),
        (("--jobs-out", "/no/such/folder/jobs.csv"), "--jobs-out /no/such/folder/jobs.csv: cannot"),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_what_could(
    words: tuple[str, ...], text: str
) -> None:
    run = koala_here("simulate", "deadlines", *BRIEF, *words)
    assert (run.returncode, run.stdout) == (2, "")
    assert text in run.stderr
