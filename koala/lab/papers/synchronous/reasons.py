"""Reasons why claims of the synchronous-queuing paper fail.

A reason that names a cause says which run isolates it: mostly one of the other readings, which
change one thing each. Figures are those of the full run, eight replications of 1,500 tasks of each
kind; those every 50, 1000 and 5000 s, and of a hard partition with 25 machines, are of short runs.
A claim that may fail and has no reason here was not looked into further.
"""

from __future__ import annotations

END_EARLY = (
    "subtasks that nobody controls get whole queues when tasks come every 500 s: the first of a "
    "task ends 95 to 99 % of its duration early, and the last soon after it. Finish times lie "
    "close together, though progress does not. With a hard partition, where a queue gets no more "
    "than its share, the claim holds (see *What the verdicts depend on*)"
)
ONCE_OUTSIDE = (
    "as we read figure 5, a correction follows a violation, and a task that needed one has left "
    "its window: every 500 s 0.07 of the tasks never do with 5 machines and 0.01 to 0.02 with "
    "more, though 0.92 of the cycles conform. With figure 5 as printed, which corrects within the "
    "window already, it holds (see *What the verdicts depend on*)"
)
BOTH_LOSE_ALL = (
    "every 500 s hardly a task stays inside its window under either (0.01 to 0.07 with SQ, none "
    "with QoS), so that the share falls by more where it was higher every 10 s: with SQ, from 0.98 "
    "against 0.92 (15 machines). With figure 5 as printed tasks stay inside under SQ, and it does "
    "not fail"
)
HIGHEST_BETWEEN = (
    "it is highest about where nearly all tasks are accepted for the first time, and falls from "
    "there to what it is in an empty grid. With 25 machines it is 276 s every 10 s, 650 every 50, "
    "608, 552 and 536 every 100, 500 and 5000 (short runs, two replications), while 0.74, and then "
    "0.99 of the tasks and more are accepted. A task that is alone gets all of its machines, "
    "whatever they are agreed to give: that is 536 s. Other tasks on some of them add to it"
)
HIGHEST_AT_100 = (
    "with 10 machines and more it is highest every 100 s (with 5, every 200) and falls by about a "
    "third up to 500 s: 282, 239 and 193 s with 25 machines. It comes from idle capacity that only "
    "some machines of a task have: with a hard partition, where nobody gets it, it is 36 to 39 s "
    "every 100, 500 and 5000 s. From 100 s on nearly all tasks are accepted, and fewer others "
    "make a difference between the machines of a task: 165 s every 1000, 130 every 5000 s"
)
EARLY_ENDS = (
    "under QoS tasks end early and give their weight back, which lets more in than 5 % more weight "
    "does. Where weight is given back at the agreed end only, nobody gains by ending early, and "
    "the claim holds (see *What the verdicts depend on*)"
)

REASONS = {
    "5.3-2": "100/35 is one over the mean speed; the mean of one over the speed is 2 ln 6 = 3.58",
    "5.4-1b": END_EARLY,
    "5.4-1d": END_EARLY,
    "5.4-2b": END_EARLY,
    "5.4-2d": END_EARLY,
    "5.4-2e": HIGHEST_BETWEEN,
    "5.4-3e": HIGHEST_AT_100,
    "5.4-8d": ONCE_OUTSIDE,
    "5.4-8f": BOTH_LOSE_ALL,
    "5.4-8g": ONCE_OUTSIDE,
    "5.4-8i": BOTH_LOSE_ALL,
    "5.4-9d": f"{ONCE_OUTSIDE}. Of asynchrony the shares are 0.18 to 0.28 with SQ and 0.09 to 0.23 "
    "with QoS: more, but not much more",
    "5.4-9g": f"{ONCE_OUTSIDE}. Of asynchrony, too, SQ has more, but not much more",
    "5.4-10a": EARLY_ENDS,
}
