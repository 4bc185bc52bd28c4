"""Phases of a job, by name."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

TerminalPhase: TypeAlias = Literal["Finished", "Failed", "Cancelled"]
Phase: TypeAlias = Literal[
    "Waiting",
    "Delayed",
    "Placing",
    "Claiming",
    "Queued",
    "Starting",
    "Releasing",
    "Running",
    "Stopping",
    TerminalPhase,
]

PHASES: tuple[Phase, ...] = get_args(Phase)
"""All phases, in the order of the pipeline."""
TERMINAL_PHASES: tuple[TerminalPhase, ...] = get_args(TerminalPhase)
"""Phases in which a job has ended."""
