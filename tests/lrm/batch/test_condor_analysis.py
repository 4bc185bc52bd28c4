"""Reasons of waiting jobs of HTCondor 23.9.6: recorded analyses of a pool with one machine of
16 processors of which 12 were in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from koala_agent.lrm.batch.htcondor import wait_reason

SAMPLES = Path(__file__).parent / "samples" / "condor-23.9"
REJECTED = "of 1 machines 1 are rejected by your job's requirements"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("busy", "no match found; 1 of 2 slots meet TARGET.Cpus >= RequestCpus"),
        (
            "memory",
            f"no match found; 0 of 2 slots meet TARGET.Memory >= RequestMemory; {REJECTED}",
        ),
        ("feature", f"no match found; 0 of 2 slots meet nosuch is true; {REJECTED}"),
        ("licence", "concurrency limit matlab reached"),
        ("early", ""),
    ],
)
def test_the_reason_is_one_line_of_the_pools_words(name: str, words: str) -> None:
    text = (SAMPLES / f"analysis-{name}.txt").read_text(encoding="utf-8")
    assert wait_reason(text) == words
