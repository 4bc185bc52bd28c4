"""Reasons why claims of the KOALA paper fail, as far as they were found out."""

from __future__ import annotations

STUCK = (
    "see the runs below *Counterexamples*, where each job that is left says why it waits: the "
    "consecutive errors of one job alone can make the last site with its file unusable. The paper "
    "counts consecutive errors and does not say whose; in the one run that was repeated with "
    "errors of distinct jobs counted, as in the daemon, all jobs finished"
)
ONE_CLAIM = (
    "a job of one component is claimed at one site and then starts; one of several returns to its "
    "queue whenever one of them cannot be claimed, and each time gets a later start"
)
MORE_FAILURES = (
    "the increase comes with failures, which more components meet more often: jobs of 72 in eight "
    "components wait 3 % longer than in three with half the failures, 10 % as read and 28 % with "
    "twice. Jobs of 36 have three or four, of which the smaller ones are placed sooner (5.3-17): "
    "their placements rise by 8 % alone, from 1.76 to 1.91 a job (twenty replications)"
)
DELAYED = (
    "a job's hours begin with its submission, and no job is tried while it is delayed: the queues "
    "hold 100 jobs in all (4.2), and admit jobs of both priorities in their order. Jobs of high "
    "priority leave the queues sooner, so that the delay is a larger part of their hours. In "
    "queues without a limit they are tried 10.0 times an hour and jobs of low priority 5.0 times, "
    "as S = 2 says (regular loads of 74 and 50 %, three runs each)"
)

REASONS = {
    "1-7": STUCK,
    "3.3-3": STUCK,
    "3.4-1": STUCK,
    "5.1-1": STUCK,
    "5.2-3": STUCK,
    "7-1": STUCK,
    "5.2-13": DELAYED,
    "5.3-2": MORE_FAILURES,
    "5.2-7": "a job of low priority waits longer for its placement, and is tried for as long as it "
    "waits; 5.2-13 asks the same of each hour of waiting",
    "5.3-19": ONE_CLAIM,
    "5.3-20": ONE_CLAIM,
}
