"""Replications of the experiment put together, as the document that `--json` prints."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Any

from koala.lab.papers.koala.simulation.run import USES, Measured, over_time
from koala.lab.papers.koala.simulation.setting import OURS, Group, Setting
from koala.lab.sim.metrics import MEASURES
from koala.lab.sim.statistics import Interval, interval


class Summary:
    """Means with intervals over replications."""

    def __init__(self, setting: Setting, runs: Sequence[Measured]) -> None:
        self.setting = setting
        self.runs = tuple(runs)

    def value(self, name: str) -> Interval:
        """A figure by its name in `Measured.values`."""
        return interval([run.values[name] for run in self.runs])

    def measure(self, name: str, group: Group | None = None) -> Interval:
        """A measure of a group of jobs."""
        return self.value(f"{name}.{group or 'all'}")

    def over_time(self) -> list[dict[str, Any]]:
        """Utilisation in percent by the minute at which a bin begins, over the runs that last so
        long (KOALA, figure 2)."""
        bins = max((len(run.spans) for run in self.runs), default=0)
        minutes = [index * self.setting.bin_s / 60 for index in range(bins)]
        return [
            {
                "minute": minute,
                **{
                    use: interval(
                        [run.values.get(over_time(use, minute), nan) for run in self.runs]
                    ).document()
                    for use in USES
                },
            }
            for minute in minutes
        ]

    def document(self) -> dict[str, Any]:
        """Return the summary as plain data."""
        return {
            "setting": self.setting.document(),
            "ours": OURS,
            "seeds": [run.seed for run in self.runs],
            "unfinished": self.value("unfinished").document(),
            "makespan_s": self.value("makespan_s").document(),
            "utilization": {
                **{
                    period: {
                        use: self.value(f"utilization.{period}.{use}").document() for use in USES
                    }
                    for period in ("arrivals", "whole")
                },
                "over_time": self.over_time(),
            },
            "groups": [self._group(group) for group in self.setting.groups],
        }

    def _group(self, group: Group) -> dict[str, Any]:
        return {
            "group": str(group),
            "processors": group.processors,
            "components": group.components,
            "priority": group.priority,
            **{name: self.measure(name, group).document() for name in MEASURES},
        }
