"""Results of one run: metrics by name, and a row for each job."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from math import nan
from typing import TYPE_CHECKING, Any, Self

from koala.errors import ConfigError
from koala.lab.charts import ChartTexts, draw_distributions
from koala.lab.drawing import Drawing, Picture
from koala.lab.measures import measure_of, setting_name
from koala.lab.rows import Rows
from koala.lab.sim.drawing import size_class, size_class_name
from koala.views.grid_chart import GridChart
from koala.views.records.chart import GridTimeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CLASSES_MAX = 12
"""Lines that a distribution may have."""
_WAITS = ("waiting_s", "wait")
"""Columns of waits, which differ between simulations."""
_SIZES = "processors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Result of one run.

    - `metrics`: numbers by name, such as `wait.mean`; nan where nothing of the kind happened.
    - `jobs`: a row for each job, empty if they were not asked for.
    - `notes`: policies of other packages that misbehaved and were replaced by the default, what was
      left out, why the run was stopped, and why the first jobs that did not end wait.
    - `is_saturated`: the queues grow without end, so that means depend on the length of the run. Of
      an experiment or a replay it is judged from 1,000 jobs on; of `sq` and `hints` it is not.
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

    def plot(
        self,
        column: str | None = None,
        *,
        by: str | None = None,
        title: str | None = None,
        ax: Axes | None = None,
    ) -> Picture:
        """Draw the distribution of a column of the jobs, their waits without one; with a line for
        each value of the column `by` (classes of sizes for `processors`), in `ax` if given. Raises
        KeyError for an unknown column, and ConfigError for one without numbers."""
        name = f"{self.name}, seed {self.seed}" if title is None and ax is None else title or ""
        return distributions({"": self}, column, by=by, title=name, ax=ax)

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


def distributions(
    runs: Mapping[str, Result],
    column: str | None = None,
    *,
    by: str | None = None,
    title: str = "",
    label: str = "",
    ax: Axes | None = None,
) -> Picture:
    """Draw the distributions of a column of the jobs of several runs, by their names: their waits
    without one. With `by` there is a chart for each value of that column (classes of sizes for
    `processors`); all are in one, `ax`, if it is given. A job without a value, such as one that
    never started, counts as larger than all. Raises KeyError for an unknown column, ConfigError for
    one without numbers."""
    charts: dict[str, dict[str, list[float | None]]] = {}
    chosen = column
    largest = max((size for run in runs.values() for size in _sizes(run.jobs)), default=1)
    for name, run in runs.items():
        chosen = column or next((one for one in _WAITS if one in run.jobs.columns), _WAITS[0])
        values = run.jobs.column(chosen)
        if not any(isinstance(value, int | float) for value in values):
            raise ConfigError(f"{chosen}: no job has a number there; {run.name}, seed {run.seed}")
        classes = [""] * len(values) if by is None else run.jobs.column(by)
        groups: dict[Any, list[float | None]] = {}
        for one, value in zip(classes, values, strict=True):
            group = groups.setdefault(size_class(one) if by == _SIZES else one, [])
            group.append(value if isinstance(value, int | float) else None)
        if len(groups) > CLASSES_MAX:
            raise ConfigError(f"by = {by}: {len(groups)} values (expected at most {CLASSES_MAX})")
        for key, group in sorted(groups.items(), key=_numbers_first):
            shown = size_class_name(key, largest) if by == _SIZES else str(key)
            if len(runs) == 1:  # a line for each class
                charts.setdefault("", {})[shown or name] = group
            elif ax is not None:
                charts.setdefault("", {})[", ".join(filter(None, [name, shown]))] = group
            else:
                title_of = f"{setting_name(by or '')} {shown}" if shown else ""
                charts.setdefault(title_of, {})[name] = group
    measure = measure_of(chosen or "")
    words = ChartTexts(
        x=label or (measure.name if measure.unit == "s" else str(measure)),
        y=measure,
        legend=setting_name(by) if by and len(runs) == 1 else "run",
        title=title,
        note="share of the jobs",
    )
    return draw_distributions(charts, words, ax)


def _sizes(jobs: Rows) -> list[int]:
    return jobs.column(_SIZES) if _SIZES in jobs.columns else []


def _numbers_first(pair: tuple[Any, object]) -> tuple[bool, float, str]:
    is_number = isinstance(pair[0], int | float)
    return not is_number, pair[0] if is_number else 0.0, str(pair[0])


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
