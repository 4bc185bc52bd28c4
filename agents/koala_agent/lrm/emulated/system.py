"""The record of emulated sites."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated

import msgspec

from koala.common.runtime.settings_file import Positive
from koala_agent.lrm.batch_system import DEFAULT, BatchSystem, LRMTable
from koala_agent.starter.batch_rules import BatchRules


class EmulatedTable(LRMTable, frozen=True):
    """A queue of `site.processors` with real processes, on this machine.

    `discipline` orders the queue; `speed` divides the durations of its synthetic local users,
    `fault_rate` is the share of claims that fail on purpose, `seed` draws both; with
    `may_kill_local` the youngest local jobs are killed when a job with a deadline finds no other
    room.
    """

    discipline: str = "fcfs"
    speed: Positive = 1.0
    fault_rate: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    seed: int = 0
    may_kill_local: bool = False


SYSTEM = BatchSystem(
    kind=DEFAULT,
    title="emulated",
    place="a queue of its own on this machine",
    settings=EmulatedTable,
    template=files("koala_agent.lrm.emulated") / "agent.toml",
    rules=BatchRules(),
)
