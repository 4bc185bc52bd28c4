"""Sweeps: many settings with the same seeds, and their paired comparisons.

Equal seeds mean equal jobs in every setting (common random numbers), so differences are taken
within each seed, and what the jobs have in common cancels.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any

from koala.errors import ConfigError
from koala.lab.charts import Chart, ChartTexts, Dot, draw_differences, draw_means
from koala.lab.drawing import Picture
from koala.lab.engines import engine_of
from koala.lab.experiments import Experiment, label
from koala.lab.measures import Measure, measure_of, setting_name
from koala.lab.models import KINDS, Model
from koala.lab.papers.results import Results
from koala.lab.progress import shown
from koala.lab.replays import Replay
from koala.lab.rows import INTERVAL, Row, Rows
from koala.lab.sim.campaign.code import code_of_module, own_code
from koala.lab.sim.campaign.execution import Campaign, StoreChoice
from koala.lab.sim.campaign.identity import Plain, canonical, run_id
from koala.lab.sim.campaign.records import FinishedRun
from koala.lab.sim.campaign.work import Work
from koala.lab.sim.runs import Effort, Outcome, Quantity, Run
from koala.lab.sim.statistics import interval, paired
from koala.views.units import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Base = Experiment | Model | Replay
Over = Mapping[str, Sequence[Any] | Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A setting of a sweep, and the values by which it differs from the others."""

    labels: tuple[tuple[str, Any], ...]
    base: Base

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.labels) or str(self.base)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A run of a sweep: the place of its point, its seed, and its pickled setting; `own` is the
    digest of the user's functions in it, as they are here."""

    place: int
    seed: int
    setting: bytes
    own: str = ""


def points_of(base: Base, over: Over | Sequence[Mapping[str, Any]]) -> tuple[Point, ...]:
    """List the settings: each combination of values, or each of a list. Raises ConfigError."""
    if isinstance(over, Mapping):
        named = [list(_named(name, values)) for name, values in over.items()]
        combinations: Iterable[Sequence[tuple[str, Any, Any]]] = product(*named)
    else:
        combinations = [[(name, label(one), one) for name, one in row.items()] for row in over]
    return tuple(
        Point(
            labels=tuple((name, text) for name, text, _ in combination),
            base=base.changed(**{name: value for name, _, value in combination}),
        )
        for combination in combinations
    )


def _named(name: str, values: Sequence[Any] | Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(values, str) or not isinstance(values, Sequence | Mapping) or not values:
        raise ConfigError(f"{name} = {values!r} (expected a list of values, or values by label)")
    if isinstance(values, Mapping):
        yield from ((name, text, value) for text, value in values.items())
    else:
        yield from ((name, label(value), value) for value in values)


def sweep(  # noqa: PLR0913 - options of an experiment, all but two by name
    base: Base,
    over: Over | Sequence[Mapping[str, Any]] = (),
    *,
    reps: int = 5,
    seed: int = 1,
    workers: int = 0,
    store: bool | str | Path = True,
    on: str = "processes",
    progress: bool = True,
    keeps_finished: bool = False,
) -> Sweep:
    """Run every setting with the seeds `seed`, `seed` + 1, ..., `reps` of them.

    `over` has a list of values for each name of a setting (all combinations are run), or is a list
    of settings. Values may have labels: {"mine": my_policy}. Finished runs are kept in the user's
    store, in the folder `store`, or nowhere (False); settings with functions of the session are
    never kept. Ctrl-C raises KeyboardInterrupt; with `keeps_finished` the finished runs are
    returned. Raises ConfigError.
    """
    if reps < 1:
        raise ConfigError(f"reps = {reps} (expected 1 or more)")
    points = points_of(base, over or [{}])
    seeds = range(seed, seed + reps)
    work = work_of(points, seeds)
    folder = Path(store) if isinstance(store, str | Path) else None
    choice = StoreChoice(folder=folder, is_used=store is not False)
    with shown("runs", len(work.items), is_wanted=progress) as update:
        made = work.execute(choice, engine_of(on, workers), update)
    if made.is_interrupted and not keeps_finished:
        raise KeyboardInterrupt
    return Sweep(points, seeds, made)


def work_of(points: Sequence[Point], seeds: Iterable[int]) -> Work[Task]:
    """List the runs: all settings with the first seed, then with the second. Runs whose settings
    have functions of the session have no name."""
    plain = [_canonical(point.base) for point in points]
    settings = [
        (place, _pickled(point.base), own_code(one))
        for place, (point, one) in enumerate(zip(points, plain, strict=True))
    ]
    tasks = tuple(
        Task(place=place, seed=seed, setting=setting, own=own)
        for seed in seeds
        for place, setting, own in settings
    )
    return Work(
        run=run_task,
        code=code_of(points[0].base),
        items=tasks,
        names=tuple(
            None if (one := plain[task.place]) is None else run_id("lab", one, seed=task.seed)
            for task in tasks
        ),
        own=tuple(task.own for task in tasks),
    )


def _canonical(base: Base) -> Plain:
    try:
        return canonical(base)
    except ConfigError:
        return None


def code_of(base: Base) -> str:
    """Return the digest of the code that runs a setting."""
    match base:
        case Model():
            kind = KINDS[base.name]
            return code_of_module(f"{kind.package}.{kind.module}")
        case Replay():
            return code_of_module("koala.lab.replays")
        case Experiment():
            return code_of_module("koala.lab.experiments")


def run_task(task: Task) -> Outcome:
    """Make one run, in any process. Raises ConfigError if the user's functions are not those with
    which the sweep was begun, as a machine's may be."""
    base, own = _loaded(task.setting, task.own)
    if own != task.own:
        raise ConfigError(
            f"{base}: {gethostname()} has other code of your own functions (expected workers"
            " with the same modules)"
        )
    found = base.run(task.seed, has_jobs=False)
    return Outcome(
        values=found.metrics,
        is_saturated=found.is_saturated,
        is_stopped=found.is_stopped,
        notes=tuple(found.notes),
    )


@lru_cache(maxsize=64)
def _loaded(setting: bytes, _own: str) -> tuple[Base, str]:
    """Return a setting, and the digest of the user's functions in it as they are here. A module
    that was edited and reloaded is the same setting with another digest."""
    try:
        base: Base = pickle.loads(setting)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{gethostname()} lacks a module of your own: {error}") from error
    return base, own_code(_canonical(base))


def _pickled(base: Base) -> bytes:
    """Pickle a setting, with functions of the session by value."""
    import cloudpickle  # noqa: PLC0415 - of the extra `sim`

    found: bytes = cloudpickle.dumps(base)
    return found


class Sweep:
    """Finished runs of a sweep."""

    def __init__(self, points: Sequence[Point], seeds: Sequence[int], made: Campaign[Task]) -> None:
        self.points = tuple(points)
        self.seeds = tuple(seeds)
        self.made = made
        self._found: dict[int, dict[int, FinishedRun]] = {place: {} for place in range(len(points))}
        for task, one in made.finished:
            self._found[task.place][task.seed] = one
        outcomes = [one.outcome for _, one in made.finished]
        self.metrics = tuple(dict.fromkeys(name for one in outcomes for name in one.values))

    @property
    def is_interrupted(self) -> bool:
        """True if not all runs were made."""
        return self.made.is_interrupted

    @property
    def replaced(self) -> tuple[str, ...]:
        """Policies of other packages in whose place the default went on in a run."""
        return self.made.replaced

    @property
    def stopped(self) -> Rows:
        """A row for each run that was stopped at a standstill: the labels of its setting, its seed,
        and its notes, which say why."""
        return Rows(
            {**dict(self.points[task.place].labels), "seed": task.seed, "notes": note}
            for task, one in self.made.finished
            if one.outcome.is_stopped
            for note in ["; ".join(one.outcome.notes)]
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of what differs between the settings."""
        return tuple(dict.fromkeys(name for point in self.points for name, _ in point.labels))

    def rows(self) -> Rows:
        """Return a row for each run: the labels of its setting, seed and metrics."""
        return Rows(self._runs(), (*self.names, "seed", "saturated"))

    def means(self, *metrics: str) -> Rows:
        """Return a row for each setting: means and half-widths of their 95 % confidence intervals
        (`..._ci95`) of these metrics; of all when none is named. Raises KeyError."""
        wanted = metrics or self.metrics
        rows = []
        for place, point in enumerate(self.points):
            row = {**dict(point.labels), "replications": len(self._found[place])}
            for name in wanted:
                found = interval([*self._values(place, name).values()])
                column = self._column(name)
                row |= {column: found.mean, column + INTERVAL: found.ci95}
            rows.append(row)
        return Rows(rows, (*self.names, "replications"))

    def compare(
        self,
        metric: str,
        *,
        over: str,
        baseline: Any,  # noqa: ANN401 - a label
    ) -> ComparisonRows:
        """Compare each setting with that which differs in `over` alone, where it is `baseline`.

        A row has the mean difference over the seeds, the bounds of its 95 % confidence interval,
        the difference in percent of the baseline's mean, and `higher`, `lower`, `equal` or
        `undecided`.
        Raises KeyError for unknown names.
        """
        if over not in self.names:
            raise KeyError(f"{over!r}: settings differ in {', '.join(self.names)}")
        text = label(baseline)
        bases = {
            self._others(point, over): place
            for place, point in enumerate(self.points)
            if dict(point.labels).get(over) == text
        }
        if not bases:
            values = dict.fromkeys(str(dict(point.labels).get(over)) for point in self.points)
            raise KeyError(f"{text!r}: values of {over} are {', '.join(values)}")
        rows = []
        for place, point in enumerate(self.points):
            base = bases.get(self._others(point, over))
            if base is None or base == place:
                continue
            ones, others = self._values(place, metric), self._values(base, metric)
            seeds = [one for one in ones if one in others]
            found = paired([ones[one] for one in seeds], [others[one] for one in seeds])
            mean = interval([others[one] for one in seeds]).mean
            rows.append(
                {
                    **dict(point.labels),
                    "baseline": text,
                    "difference": found.mean,
                    "low": found.low,
                    "high": found.high,
                    "percent": 100 * found.mean / mean if mean else float("nan"),
                    "replications": found.values,
                    "verdict": found.verdict(),
                }
            )
        return ComparisonRows(rows, self.names, metric=metric, over=over, baseline=text)

    def plot(
        self,
        metric: str,
        *,
        x: str | None = None,
        by: str | None = None,
        title: str = "",
        label: str = "",
        ax: Axes | None = None,
    ) -> Picture:
        """Draw the means of a metric with their intervals: over `x`, a line or bar for each value
        of `by`, a chart for each combination of the rest. `label` takes the place of the metric's
        name and unit, and keeps its numbers. Draws in `ax`, if given. Raises KeyError for unknown
        names, ConfigError if `ax` would have several charts."""
        self._values(0, metric)
        results = self._results()
        dots = []
        for point in self.points:
            drawn = Quantity(str(point), metric)
            found = results.drawn(drawn)
            is_saturated = results.is_drawn_saturated(drawn)
            dots.append((dict(point.labels), (found.mean, found.low, found.high), is_saturated))
        charts, x, by = _charts(dots, self.names, x=x, by=by, series=metric)
        measure = _measure(metric, (mean for _, (mean, _, _), _ in dots), label)
        words = ChartTexts(
            x=setting_name(x),
            y=measure,
            legend=setting_name(by or ""),
            title=title,
            note=f"95 % intervals of {len(self.seeds)} seeds" if len(self.seeds) > 1 else "1 seed",
        )
        return draw_means(charts, words, ax)

    def __repr__(self) -> str:
        text = ", interrupted" if self.is_interrupted else ""
        text += f", {len(self.stopped)} stopped" if len(self.stopped) else ""
        count = len(self.made.finished)
        runs = f"{counted(count, 'run')} of {counted(len(self.points), 'setting')}"
        return f"{runs}{text}: {', '.join(self.names)}"

    def _runs(self) -> Iterator[Row]:
        for task, one in self.made.finished:
            labels = dict(self.points[task.place].labels)
            yield {
                **labels,
                "seed": task.seed,
                "saturated": one.outcome.is_saturated,
                **{self._column(name): value for name, value in one.outcome.values.items()},
            }

    def _column(self, metric: str) -> str:
        """Name the column of a metric, which may be called like a setting."""
        return f"measured_{metric}" if metric in self.names else metric

    def _values(self, place: int, metric: str) -> dict[int, float]:
        if metric not in self.metrics:
            raise KeyError(f"{metric!r}: metrics are {', '.join(self.metrics)}")
        found = self._found[place].items()
        return {seed: one.outcome.values.get(metric, float("nan")) for seed, one in found}

    def _others(self, point: Point, over: str) -> tuple[tuple[str, Any], ...]:
        return tuple(pair for pair in point.labels if pair[0] != over)

    def _results(self) -> Results:
        effort = Effort(name="lab", replications=len(self.seeds), length=0.0, levels=())
        return Results(
            (Run(setting=str(self.points[task.place]), seed=task.seed, effort=effort), one.outcome)
            for task, one in self.made.finished
        )


class ComparisonRows(Rows):
    """Paired differences of a metric to a baseline, with the ends of their intervals."""

    def __init__(
        self,
        rows: Iterable[Mapping[str, Any]],
        names: Sequence[str],
        *,
        metric: str,
        over: str,
        baseline: Any,  # noqa: ANN401 - a label
    ) -> None:
        super().__init__(rows, names)
        self._names = tuple(names)
        self._metric, self._over, self._baseline = metric, over, baseline

    def plot(
        self,
        *,
        x: str | None = None,
        title: str = "",
        label: str = "",
        ax: Axes | None = None,
    ) -> Picture:
        """Draw the differences with their intervals: over `x`, a line or mark for each value of
        what was compared, a chart for each combination of the rest; in `ax`, if given. Raises
        KeyError for an unknown name, ConfigError if `ax` would have several charts."""
        over = self._over
        dots = [
            (
                {name: row[name] for name in self._names},
                (row["difference"], row["low"], row["high"]),
                False,
            )
            for row in self
        ]
        x = x or next((name for name in self._names if name != over), over)
        by = None if x == over else over
        charts, x, by = _charts(dots, self._names, x=x, by=by, series=self._metric)
        measure = _measure(self._metric, (mean for _, (mean, _, _), _ in dots), label)
        words = ChartTexts(
            x=setting_name(x),
            y=measure if label else replace(measure, name=f"difference in {measure.name}"),
            note=f"to {setting_name(over)} {self._baseline}, 95 % interval",
            legend=setting_name(by or ""),
            title=title,
        )
        return draw_differences(charts, words, ax)


_Dots = Sequence[tuple[Mapping[str, Any], tuple[float, float, float], bool]]
"""Labels of settings; mean, low and high end; saturated or not."""


def _charts(
    dots: _Dots, names: Sequence[str], *, x: str | None, by: str | None, series: str
) -> tuple[list[Chart], str, str | None]:
    """Put dots into charts; return the names of the x axis and of the lines, too. Raises
    KeyError."""
    names = names or ("setting",)
    x = x or names[0]
    by = by or next((name for name in names if name != x), None)
    for name in (x, by):
        if name is not None and name not in names:
            raise KeyError(f"{name!r}: settings differ in {', '.join(names)}")
    charts: dict[str, Chart] = {}
    for labels, (mean, low, high), is_saturated in dots:
        rest = [(name, value) for name, value in labels.items() if name not in (x, by)]
        title = ", ".join(f"{setting_name(name)} {value}" for name, value in rest)
        line = str(labels.get(by, "")) if by else series
        place = labels.get(x, "")
        dot = Dot(x=place, mean=mean, low=low, high=high, is_saturated=is_saturated)
        charts.setdefault(title, Chart(title=title)).lines.setdefault(line, []).append(dot)
    return [*charts.values()], x, by


def _measure(metric: str, values: Iterable[float], label: str) -> Measure:
    """Return the words of a metric in a unit that suits the values, or these words."""
    return Measure(name=label) if label else measure_of(metric).scaled(values)
