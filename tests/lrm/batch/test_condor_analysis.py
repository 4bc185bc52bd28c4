"""Reasons of waiting jobs of HTCondor 23.9.6: recorded analyses of a pool with one machine of
16 processors of which 12 were in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from koala_agent.lrm.batch.htcondor import LENGTH_MAX, wait_reason

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


def test_a_reason_has_a_bounded_length_and_no_control_characters() -> None:
    assert wait_reason("") == ""
    condition = f"TARGET.Own == \x1b[2J{'x' * 500}"
    words = wait_reason(f"[0]           3  A\n[1]           0  {condition}\n")
    assert words.startswith("0 of 3 slots meet TARGET.Own == [2Jxxx")
    assert len(words) == LENGTH_MAX
