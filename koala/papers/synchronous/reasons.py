"""Reasons why claims of the synchronous-queuing paper fail; figures from a quick run."""

from __future__ import annotations

REASONS = {
    "5.3-2": "100/35 is one over the mean speed; the mean of one over the speed is 2 ln 6 = 3.58",
    "5.4-1b": "subtasks that nobody controls get whole queues, and all end within a tenth of their "
    "duration: their finish times lie close together",
    "5.4-10a": "5 % more weight is less than what QoS gains by tasks that end early and give "
    "theirs back",
}
