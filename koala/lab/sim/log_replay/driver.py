"""Drive a replay to its stops, make its changes and write the jobs that ended."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from koala.lab.sim.log_replay.events import Change
from koala.lab.sim.log_replay.job_files import JobRows
from koala.lab.sim.log_replay.run import TraceRun
from koala.lab.sim.log_replay.series import Series
from koala.lab.sim.log_replay.tally import Tally

_SLICE = 1_000
"""Number of instants between two calls of `poll`."""


class ReplayDriver:
    """Driver of a replay. `poll` is called often; it returns True to stop, and may report
    progress."""

    def __init__(
        self,
        run: TraceRun,
        *,
        changes: Sequence[Change] = (),
        rows: JobRows | None = None,
        series: Series | None = None,
        poll: Callable[[], bool] = lambda: False,
    ) -> None:
        self._run = run
        self._changes = changes
        self._rows = rows
        self._series = series
        self._poll = poll
        self._tally = Tally()
        self._done = 0
        """Number of changes already made."""
        self._breakpoints: list[dict[str, Any]] = []
        self.stopped_at: int | None = None

    def go(self, until: int | None = None) -> None:
        """Run to the end or to a stop: after all events at `until`, at a stopping breakpoint, or
        when `poll` says so."""
        while self._done < len(self._changes):
            change = self._changes[self._done]
            if until is not None and change.at > until:
                break
            is_there = (
                self._record_breakpoint(change) if change.is_breakpoint else self._make(change.at)
            )
            if not is_there or change.is_stop:
                self.stopped_at = change.at if is_there else self._run.now
                return
        if not self._go_before(math.inf if until is None else until + 1):
            self.stopped_at = self._run.now
        elif until is not None and not self._run.is_over:
            self.stopped_at = until

    # How --------------------------------------------------------------------------------------

    def _make(self, at: int) -> bool:
        """Make all changes of an instant, after its completions and before its arrivals."""
        if not self._go_before(at):
            return False
        while self._done < len(self._changes) and self._changes[self._done].at == at:
            change = self._changes[self._done]
            if change.is_breakpoint:
                break
            self._run.change(change)
            self._done += 1
        self._flush()  # those that were killed ended before what comes now
        self._run.finish_instant(at)
        return True

    def _record_breakpoint(self, change: Change) -> bool:
        """Record the state after all events of an instant."""
        if not self._go_before(change.at + 1):
            return False
        self._breakpoints.append(self._state(change.at))
        self._done += 1
        return True

    def _go_before(self, before: float) -> bool:
        """Run all instants before this one; return False when stopped on the way."""
        while self._run.go_on(before, instants=_SLICE):
            self._flush()
            if self._poll():
                return False
        self._flush()
        return True

    def _flush(self) -> None:
        run = self._run
        self._tally.add(run.ended)
        if self._rows is not None:
            self._rows.add(run.ended, run.cut)
        if self._series is not None:
            self._series.add(run.ended)
        run.ended.clear()
        run.cut.clear()

    # What there is ----------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """Return the figures, for JSON."""
        run, tally = self._run, self._tally
        end = tally.last_end if self.stopped_at is None else self.stopped_at
        held = tally.area + run.lost_area
        state = self._state(end)
        if self.stopped_at is not None:
            held += sum(row["processors"] * (end - row["start"]) for row in state["running"])
        return {
            "jobs": tally.jobs,
            "killed": run.killed,
            "requeued": run.requeued,
            "never_started": len(state["waiting"]) if self.stopped_at is None else 0,
            "makespan": end,
            "utilization": round(held / (run.queue.processors * end), 6) if end else None,
            "waiting_max": run.waiting_max,
            **tally.document(),
            "breakpoints": self._breakpoints,
            "stopped": None if self.stopped_at is None else state,
        }

    def _state(self, at: int) -> dict[str, Any]:
        state = self._run.state()
        running = ("job", "submit", "start", "processors")
        waiting = ("job", "submit", "processors")
        return {
            "at": at,
            "arrived": self._run.arrived,
            "available": state.available,
            "busy": sum(row[3] for row in state.running),
            "running": [dict(zip(running, row, strict=True)) for row in state.running],
            "waiting": [dict(zip(waiting, row, strict=True)) for row in state.waiting],
        }

    # To go on another time --------------------------------------------------------------------

    def kept(self) -> dict[str, Any]:
        """Return the state that another process needs to go on, as plain values."""
        return {
            "run": self._run.kept(),
            "tally": self._tally.kept(),
            "done": self._done,
            "breakpoints": self._breakpoints,
            "series": None if self._series is None else self._series.kept(),
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Restore a new driver from the saved state; its run has the arrivals from the next one
        on."""
        self._run.restore(kept["run"])
        self._tally = Tally.of(kept["tally"])
        self._done = kept["done"]
        self._breakpoints = kept["breakpoints"]
        if self._series is not None:
            self._series.restore(kept["series"])
