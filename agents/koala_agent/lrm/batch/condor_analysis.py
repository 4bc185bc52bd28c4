"""Read why a job waits, from the text of `condor_q -better-analyze`."""

from __future__ import annotations

import re

CONDITIONS_TOLD = 3
LENGTH_MAX = 300

REASON = re.compile(r"^Reason for last match failure: (.+)$", re.MULTILINE)
"""The negotiator's words; missing until its first cycle with the job."""
CONDITION = re.compile(r"^\[[0-9]{1,4}\] +([0-9]{1,9})  (\S.*)$", re.MULTILINE)
"""One condition of the job, with the number of slots that meet it."""
OWN = "NumShadowStarts"
"""Attribute in a condition that Koala gives to each of its jobs, so it explains nothing."""
MACHINES = re.compile(r"Of ([0-9]{1,9}) machines,\s*$", re.MULTILINE)
COUNT = re.compile(r"^ +([1-9][0-9]{0,8}) (are rejected|reject your|match but)(.*)$", re.MULTILINE)
"""A number of machines that do not take the job now."""


def wait_reason(text: str) -> str:
    """Return the reason in one short line; empty when the text has none."""
    reason = REASON.search(text)
    parts = [reason[1].strip()] if reason is not None else []
    parts += _unmet(text)
    machines = MACHINES.search(text)
    counts = [f"{count} {verb}{rest}" for count, verb, rest in COUNT.findall(text)]
    if machines is not None and counts:
        parts.append(f"of {machines[1]} machines {', '.join(counts)}")
    line = "".join(char for char in "; ".join(parts) if char.isprintable())
    words = " ".join(line.split())
    return words if len(words) <= LENGTH_MAX else f"{words[: LENGTH_MAX - 3]}..."


def _unmet(text: str) -> list[str]:
    """Return the conditions that fewer slots meet than another condition; the hardest first."""
    found = [(int(slots), words) for slots, words in CONDITION.findall(text) if OWN not in words]
    most = max((slots for slots, _ in found), default=0)
    hard = sorted((one for one in found if one[0] < most), key=lambda one: one[0])
    return [f"{slots} of {most} slots meet {words}" for slots, words in hard[:CONDITIONS_TOLD]]
