"""Columns of a run: as recorded, as simulated, and as simulated with changes, once or in several
ways.

The second column shows the error of the third: where it differs from the first, the simulation
lacks information, and so does the third. Differences are therefore taken between the simulations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from koala.core.model.events import ParametersChanged
from koala.core.model.values import Instant
from koala.core.scheduler import Scheduler
from koala.lab.sim.journal_replay.figures import (
    Row,
    claim_rows,
    differences,
    fidelity,
    job_rows,
    site_rows,
    totals,
)
from koala.lab.sim.journal_replay.recording import Recording, recorded
from koala.lab.sim.journal_replay.run_history import RunHistory
from koala.lab.sim.journal_replay.world import ReplayWorld
from koala.policies import DEFAULTS
from koala.policies.changes import Changes, require_valid

COLUMNS = ("recorded", "simulated", "what_if")


def require_possible(recording: Recording, changes: Changes) -> None:
    """Check recorded and changed parameters together. Raises ConfigError."""
    for _, event in recording.outside:
        if isinstance(event, ParametersChanged):
            require_valid(event.parameters, changes.parameters, "the recorded")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One of the columns."""

    scheduler: Scheduler
    history: RunHistory
    guessed: Mapping[str, int]

    def rows(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the rows of its jobs and its sites."""
        return job_rows(self.scheduler), site_rows(self.history)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """The columns, and the differences of the last one."""

    columns: dict[str, Column]
    policies: dict[str, str]  # as they were, or are assumed to have been
    is_named: bool
    changes: Changes

    def claims(self) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of all claims of each column."""
        return {name: claim_rows(column.history) for name, column in self.columns.items()}

    def document(self) -> dict[str, Any]:
        """Return all of it but the claims for `--json`, and for the text."""
        rows = {name: column.rows() for name, column in self.columns.items()}
        figures = {
            name: totals(self.columns[name].history, jobs, sites)
            for name, (jobs, sites) in rows.items()
        }
        by_job = {name: {job["job"]: job for job in jobs} for name, (jobs, _) in rows.items()}
        by_site = {
            name: {site["site"]: site for site in sites} for name, (_, sites) in rows.items()
        }
        last = self.columns["recorded"].scheduler.parameters
        return {
            "policies": {"recorded": self.policies, "are_recorded": self.is_named},
            "changes": {
                **self.changes.policies,
                **self.changes.parameters,
            },
            "changed_from": {
                **{slot: self.policies[slot] for slot in self.changes.policies},
                **{name: getattr(last, name) for name in self.changes.parameters},
            },
            "figures": {
                **figures,
                "difference": differences(figures["what_if"], figures["simulated"]),
            },
            "fidelity": fidelity(rows["recorded"][0], rows["simulated"][0]),
            "guessed": {name: dict(self.columns[name].guessed) for name in COLUMNS[1:]},
            "jobs": _aligned("job", by_job),
            "sites": _aligned("site", by_site),
        }


def compare(
    history: RunHistory,
    scheduler: Scheduler,
    changes: Changes,
    progress: Callable[[str, Recording], Callable[[Instant], None]],
) -> WhatIf:
    """Run the two simulations; `progress` makes the progress callback of each. Raises ConfigError
    where recorded and changed parameters conflict."""
    recording = recorded(history)
    require_possible(recording, changes)
    policies = {**DEFAULTS, **recording.policies}
    columns = {"recorded": Column(scheduler=scheduler, history=history, guessed={})}
    for name, changed in (("simulated", Changes()), ("what_if", changes)):
        columns[name] = _simulated(recording, changed, progress(name, recording))
    return WhatIf(
        columns=columns,
        policies=policies,
        is_named=bool(recording.policies),
        changes=changes,
    )


def alternatives(
    history: RunHistory,
    scheduler: Scheduler,
    changes: Mapping[str, Changes],
    progress: Callable[[str, Recording], Callable[[Instant], None]],
) -> dict[str, dict[str, Any]]:
    """Run a simulation without changes, and one with each of these; return the totals of all, and
    of the recorded run. Raises ConfigError."""
    recording = recorded(history)
    for changed in changes.values():
        require_possible(recording, changed)
    columns = {"recorded": Column(scheduler=scheduler, history=history, guessed={})}
    for name, changed in {"simulated": Changes(), **changes}.items():
        columns[name] = _simulated(recording, changed, progress(name, recording))
    return {name: totals(one.history, *one.rows()) for name, one in columns.items()}


def _simulated(
    recording: Recording, changes: Changes, progress: Callable[[Instant], None]
) -> Column:
    world = ReplayWorld(replace(recording, guessed=Counter()), changes)
    world.run(progress)
    return Column(scheduler=world.scheduler, history=world.history, guessed=world.recording.guessed)


def _aligned(key: str, rows: Mapping[str, Mapping[str, Row]]) -> list[dict[str, Any]]:
    """Align the columns: a row for each job or site, with the values of each column."""
    return [
        {key: name, **{column: of.get(name) for column, of in rows.items()}}
        for name in rows["recorded"]
    ]
