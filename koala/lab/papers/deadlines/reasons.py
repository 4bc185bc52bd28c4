"""Reasons why claims of the deadlines paper fail; figures from the published full run."""

from __future__ import annotations

KILLS = (
    "with a global load of 40 %, fewer jobs kill, but each of them kills more: under Wait-10 19 "
    "of 100 global jobs kill 2.4 local jobs each, under Wait-1000 14 kill 3.3, under Wait-∞ 12 "
    "kill 3.5 (five runs of 600,000 s)"
)
NOT_STARTED = (
    ", and a fifth of the local jobs never ends there (3.3-24). With 30 %, where no queue grows, "
    "Wait-∞ does kill more: 5.9 % against 4.7 % (figure 9)"
)
NOT_STOPPED = (
    "under GP a full system does not stop a job at its deadline, since local jobs are killed for "
    "it; what stops it are processors that other global jobs hold, and with Lp = 1 none is held "
    "before its deadline. Under LP it holds, see *What the verdicts depend on*"
)

REASONS = {
    "3.2-3": "the first jobs find room at their deadline in any case; claims made early stand in "
    "one another's way, and cannot be killed",
    "3.2-9": NOT_STOPPED,
    "3.2-10": NOT_STOPPED,
    "3.3-1": "16.5 % of all processors are wasted there, 23 % of those that are busy or claimed. "
    "The quarter is our reading of *much*; at the four other loads it is 28 to 41 %",
    "3.3-14": "with a local load of 60 % two fifths of the processors are idle in the mean. Under "
    "Wait-10 58 % of the jobs start and under Wait-∞ 68 % with a global load of 20 %, 51 % and "
    "66 % with 40 %",
    "3.3-17": "none is killed, but claims take idle processors that local jobs then wait for: with "
    "a global load of 40 % they take 217 s under Wait-0, 1,289 s under Wait-1000, and under Wait-∞ "
    "their queues grow without end; without global jobs they take 126 s",
    "3.3-21": KILLS + NOT_STARTED,
    "3.3-22": KILLS + NOT_STARTED,
    "3.3-24": KILLS + ". Of the local jobs that ended, 8.1 % are killed under Wait-∞ and 6.8 % "
    "under Wait-10: more, but not by a quarter",
    "4-2": "under LP nothing is killed at the deadline, so that an early claim is the one way to "
    "processors that local jobs would take",
}
