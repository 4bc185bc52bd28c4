"""Reasons why claims of the KOALA paper fail; figures from a quick run."""

from __future__ import annotations

STUCK = (
    "one job of one run: its components failed eight times in a row at the good site of 130 "
    "processors, which became unusable, as the other site with its file was (see "
    "*Counterexamples*). The paper counts consecutive errors and does not say whose; where only "
    "errors of distinct jobs count, as in the daemon, the job finishes"
)
ONE_CLAIM = (
    "a job of one component is claimed at one site and then starts; one of several returns to its "
    "queue whenever one of them cannot be claimed, and each time gets a later start"
)

REASONS = {
    "1-7": STUCK,
    "3.3-3": STUCK,
    "3.4-1": STUCK,
    "5.1-1": STUCK,
    "5.2-3": STUCK,
    "7-1": STUCK,
    "5.2-7": "a job of low priority waits longer for its placement, and is tried for as long as it "
    "waits; 5.2-13 asks the same of each hour of waiting",
    "5.3-19": ONE_CLAIM,
    "5.3-20": ONE_CLAIM,
}
