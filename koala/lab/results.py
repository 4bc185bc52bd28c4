"""Results of one run: metrics by name, and a row for each job."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from math import nan
from typing import Any, Self

from koala.errors import ConfigError
from koala.lab.drawing import Drawing, Picture, distribution
from koala.lab.rows import Rows
from koala.views.grid_chart import GridChart
from koala.views.records.chart import GridTimeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Result of one run.

    - `metrics`: numbers by name, such as `wait.mean`; nan where nothing of the kind happened.
    - `jobs`: a row for each job, empty if they were not asked for.
    - `notes`: policies of other packages that misbehaved and were replaced by the default, what was
      left out, why the run was stopped, and why the first jobs that did not end wait.
    - `is_saturated`: the queues grow without end, so that means depend on the length of the run. Of
      an experiment it is judged from 1,000 jobs on; of a replay, `sq` and `hints` it is not judged.
      `koala` has it where a job had not ended at the horizon.
    - `is_stopped`: no job would ever have started again, so the run was stopped.
    - `document`: what the command prints with --json, where one run has such a document.
    - `timeline`: the newest 1,000 claims over the sites, of an experiment that has its jobs.
    """

    name: str
    seed: int
    metrics: Mapping[str, float]
    jobs: Rows
    is_saturated: bool = False
    is_stopped: bool = False
    notes: tuple[str, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict)
    timeline: GridTimeline | None = None

    def noted(self, replaced: Sequence[str]) -> Self:
        """Return the result with a note for each policy of another package that was replaced."""
        notes = tuple(dict.fromkeys(replaced))
        return replace(self, notes=(*notes, *self.notes)) if notes else self

    def __getitem__(self, metric: str) -> float:
        """Return a metric. Raises KeyError for an unknown name, with the known ones."""
        if metric not in self.metrics:
            raise KeyError(f"{metric!r}: metrics are {', '.join(self.metrics)}")
        return self.metrics[metric]

    def plot(self, column: str = "waiting_s") -> Picture:
        """Draw the distribution of a column of the jobs. Raises KeyError for an unknown one, and
        ConfigError for one without numbers."""
        values = [one for one in self.jobs.column(column) if isinstance(one, int | float)]
        if not values:
            raise ConfigError(f"{column}: no job has a number there; {self.name}, seed {self.seed}")
        return distribution(values, title=f"{self.name}, seed {self.seed}", label=column)

    def gantt(self, *, opened: Collection[str] = ()) -> Drawing:
        """Draw the claims over the sites; those that are `opened` have a line for each claim.
        Raises ConfigError for a run without them."""
        if self.timeline is None:
            raise ConfigError(
                f"{self.name}: has no claims to draw (expected an Experiment, run with has_jobs)"
            )
        return Drawing(GridChart(self.timeline, opened=opened).document())

    def __repr__(self) -> str:
        rows = Rows({"metric": name, "value": value} for name, value in self.metrics.items())
        suffix = ", saturated" if self.is_saturated else ""
        suffix += ", stopped" if self.is_stopped else ""
        return "\n".join([f"{self.name}, seed {self.seed}{suffix}", repr(rows), *self.notes])

    def _repr_html_(self) -> str:
        rows = Rows({"metric": name, "value": value} for name, value in self.metrics.items())
        return rows._repr_html_() + "".join(f"<p>{escape(note)}</p>" for note in self.notes)


def flat(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers of a document by their path, `wait.mean`; null is nan, words are left
    out."""
    for name, value in document.items():
        path = f"{prefix}{name}"
        match value:
            case bool() | str() | list() | tuple():
                pass
            case None:
                yield path, nan
            case int() | float():
                yield path, float(value)
            case Mapping():
                yield from flat(value, f"{path}.")
            case _:
                pass
