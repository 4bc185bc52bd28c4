"""Reasons why claims of the synchronous-queuing paper fail.

Figures are from quick runs, those of tasks of two and more and of whole tasks from short ones (3 of
20 tasks of each kind).
"""

from __future__ import annotations

END_EARLY = (
    "subtasks that nobody controls get whole queues, and all end within a tenth of their duration: "
    "their finish times lie close together, though their progress does not"
)
NOTHING_LEFT = (
    "with 5 machines it does rise. With 15 and more it is large already every 10 s: the machines "
    "are full, and the dummy has hardly a weight with which to speed up one that fell behind"
)
LESS_LOAD = (
    "with 5 machines it does rise. With more machines the load on each decreases (5.3-3), so that "
    "with 25 subtasks speed away every 10 s as they do every 500 s"
)
ONCE_OUTSIDE = (
    "a correction follows a violation, and a task that needed one has left its window. By whole "
    "tasks SQ has hardly more than QoS, where by cycles it has 0.92 against 0.08 (5 machines, "
    "every 500 s)"
)
NOTHING_TO_LOSE = (
    "under QoS hardly a task stays inside its window even every 10 s (0.01 with 15 machines), so "
    "that its share cannot fall by more than that of SQ, which falls from 0.5 to 0"
)

REASONS = {
    "5.3-2": "100/35 is one over the mean speed; the mean of one over the speed is 2 ln 6 = 3.58",
    "5.4-1b": END_EARLY,
    "5.4-1d": END_EARLY,
    "5.4-2b": END_EARLY,
    "5.4-2c": LESS_LOAD,
    "5.4-2d": END_EARLY,
    "5.4-3b": NOTHING_LEFT,
    "5.4-3d": NOTHING_LEFT,
    "5.4-8d": ONCE_OUTSIDE,
    "5.4-8f": NOTHING_TO_LOSE,
    "5.4-8g": ONCE_OUTSIDE,
    "5.4-8i": NOTHING_TO_LOSE,
    "5.4-9d": ONCE_OUTSIDE,
    "5.4-9g": ONCE_OUTSIDE,
    "5.4-10a": "5 % more weight is less than what QoS gains by tasks that end early and give "
    "theirs back",
}
