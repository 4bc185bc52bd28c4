"""`koala simulate sq`: the form that is a contract, its keys, and its refusals."""

from __future__ import annotations

import json

import pytest

from tests.cli.command import koala_here

BRIEF = ("--tasks", "60", "--workers", "1")
METRICS = ("skew_eq2", "skew_finish", "qos_conformance", "effective_cycles", "acceptance_ratio")


@pytest.mark.parametrize("scheme", ["SQ", "QoS"])
def test_the_required_form_gives_the_required_keys(scheme: str) -> None:
    form = (
        f"--scheme {scheme} --machines 5 --interarrival 10 --beta 0.05 --quantum 0.1"
        " --partition soft --test corrected --seed 1 --reps 3 --json"
    )
    run = koala_here("simulate", "sq", *form.split(), *BRIEF)
    assert (run.returncode, run.stderr) == (0, "")
    found = json.loads(run.stdout)
    assert all(sorted(found[name]) == ["ci95", "mean"] for name in METRICS)
    assert 0 < found["acceptance_ratio"]["mean"] < 1
    assert (found["tasks"], found["replications"]) == (180, 3)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--scheme", "RR"), "--scheme RR (expected one of QoS, free, SQ, SQ-printed, or a"),
        (("--machines", "0"), "--machines 0 (expected a number from 1 to 1000"),
        (("--beta", "1"), "--beta 1 (expected a number from 0, below 1"),
        (("--partition", "firm"), "--partition firm (expected one of soft, hard"),
        (("--test", "right"), "--test right (expected one of corrected, printed"),
        (("--plot", "picture.txt"), "--plot picture.txt (expected a file named"),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_what_could(
    words: tuple[str, ...], text: str
) -> None:
    run = koala_here("simulate", "sq", *BRIEF, *words)
    assert (run.returncode, run.stdout) == (2, "")
    assert text in run.stderr
