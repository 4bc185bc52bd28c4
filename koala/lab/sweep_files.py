"""Sweeps of files: TOML with a simulation, what its settings share, and what differs.

simulate = "multiqueue"     # a paper's simulation, "trace" (a log on one site) or "grid"
reps = 10

[options]                   # of `koala simulate NAME`, with underscores
jobs = 20000

[over]                      # all combinations; or [[setting]] tables, one a setting
policy = ["LS-DO", "GP"]
utilization = [0.4, 0.6]

[compare]
metric = "response.all"
over = "policy"
baseline = "GP"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec

from koala.common.runtime.paths import written_text
from koala.common.runtime.settings_file import convert, parse_toml
from koala.errors import ConfigError
from koala.lab.experiments import Experiment, Faults, changed, label
from koala.lab.grids import Grid, grid
from koala.lab.models import KINDS, Model
from koala.lab.reading import read_grid
from koala.lab.replays import Replay
from koala.lab.sweeps import Base, Point, points_of
from koala.lab.workloads import Log, Synthetic

TRACE, GRID = "trace", "grid"
SETTINGS_MAX = 100_000
Positive = Annotated[int, msgspec.Meta(ge=1)]
Value = str | int | float | bool


class Compared(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A comparison of settings that differ in `over` alone with that where it is `baseline`."""

    metric: str
    over: str
    baseline: Value


class _File(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    simulate: str
    reps: Positive = 5
    seed: Annotated[int, msgspec.Meta(ge=0)] = 1
    log: str | None = None
    grid: str | None = None
    sites: dict[str, Positive] | None = None
    local_load: float = 0.0
    workload: dict[str, Any] = {}
    faults: dict[str, Any] = {}
    options: dict[str, Any] = {}
    over: dict[str, list[Any]] = {}
    setting: list[dict[str, Any]] = []
    metrics: list[str] = []
    compare: Compared | None = None


class SweepFile(msgspec.Struct, frozen=True):
    """A sweep that was read: its settings and how they are run and compared."""

    name: str
    points: tuple[Point, ...]
    reps: int
    seed: int
    metrics: tuple[str, ...]
    compare: Compared | None

    @property
    def seeds(self) -> range:
        """A seed for each replication."""
        return range(self.seed, self.seed + self.reps)

    def options(self) -> dict[str, Any]:
        """Return what determines the results."""
        settings = [str(point) for point in self.points]
        return {"name": self.name, "seed": self.seed, "reps": self.reps, "settings": settings}


def read_sweep(path: Path, *, reps: int | None = None, seed: int | None = None) -> SweepFile:
    """Read a sweep; files that it names are relative to its folder. Raises ConfigError with file,
    line or key, and what is allowed."""
    file = _parsed(path)
    if file.over and file.setting:
        raise ConfigError(
            f"{path}: over and setting cannot be combined (expected only one of them)"
        )
    try:
        base = _base(file, path.resolve().parent)
        count = 1
        for name, values in file.over.items():
            count *= len(values)
            if not values:
                raise ConfigError(f"over.{name} = [] (expected a list with at least one value)")
        if count > SETTINGS_MAX:
            raise ConfigError(f"over has {count} combinations (expected at most {SETTINGS_MAX})")
        over = {name: [_plain(one) for one in values] for name, values in file.over.items()}
        rows = [{name: _plain(one) for name, one in row.items()} for row in file.setting]
        with _within("over" if over else "setting"):
            points = points_of(base, over or rows or [{}])
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    if file.compare is not None:
        try:
            check_comparison(points, file.compare.over, file.compare.baseline)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error
    return SweepFile(
        name=path.stem,
        points=points,
        reps=reps or file.reps,
        seed=file.seed if seed is None else seed,
        metrics=tuple(file.metrics),
        compare=file.compare,
    )


def check_comparison(points: Sequence[Point], over: str, baseline: Value) -> None:
    """Raise ConfigError unless settings differ in `over` and one has the baseline there."""
    labels = [dict(point.labels) for point in points]
    names = dict.fromkeys(name for one in labels for name in one)
    if over not in names:
        listed = ", ".join(names) or "none"
        raise ConfigError(f"compare.over = {over!r}: settings differ in {listed}")
    values = dict.fromkeys(one[over] for one in labels if over in one)
    if label(_plain(baseline)) not in values:
        listed = ", ".join(map(str, values))
        raise ConfigError(f"compare.baseline = {baseline!r}: values of {over} are {listed}")


def _parsed(path: Path) -> _File:
    tree = parse_toml(written_text(path), source=str(path))
    return convert(tree, _File, source=f"{path}: ")


def _base(file: _File, folder: Path) -> Base:
    kinds = (*KINDS, TRACE, GRID)
    if file.simulate not in kinds:
        raise ConfigError(f"simulate = {file.simulate!r} (expected one of {', '.join(kinds)})")
    needed: dict[str, tuple[str, ...]] = {TRACE: ("log",), GRID: ("grid", "sites", "workload")}
    allowed = needed.get(file.simulate, ())
    extra = ("local_load", "faults") if file.simulate == GRID else ()
    for name in ("log", "grid", "sites", "local_load", "workload", "faults"):
        if getattr(file, name) and name not in (*allowed, *extra):
            raise ConfigError(f"{name}: not allowed with simulate = {file.simulate!r}")
    options = {name: _plain(value) for name, value in file.options.items()}
    match file.simulate:
        case "trace":
            if file.log is None:
                raise ConfigError("log is missing: simulate = 'trace' needs the path of a log")
            overrun = options.pop("overrun", "raise")
            log = Log(folder / file.log, overrun=str(overrun))
            with _within("options"):
                return Replay(log=log).changed(**options)
        case "grid":
            experiment = _experiment(file, folder)
            with _within("options"):
                return experiment.changed(**options)
        case _:
            with _within("options"):
                return Model(file.simulate, **options)


def _experiment(file: _File, folder: Path) -> Experiment:
    if (file.grid is None) == (file.sites is None):
        raise ConfigError("simulate = 'grid' needs either grid, a file, or [sites] with processors")
    found: Grid
    if file.grid is not None:
        found = read_grid(folder / file.grid)
    else:
        found = grid(file.sites or {}, local_load=file.local_load)
    faults = _made("faults", Faults, file.faults) if file.faults else None
    return Experiment(grid=found, workload=_workload(file.workload, folder), faults=faults)


def _workload(table: Mapping[str, Any], folder: Path) -> Log | Synthetic:
    if not table:
        raise ConfigError("[workload] is missing: it names a log, or a model with its jobs")
    if "log" in table:
        rest = {name: value for name, value in table.items() if name != "log"}
        log: Log = _made("workload", Log(folder / str(table["log"])), rest)
        return log
    synthetic: Synthetic = _made("workload", Synthetic(), table)
    return synthetic


def _made(name: str, value: Any, table: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a dataclass
    """Return a dataclass with these values. Raises ConfigError with the path of an unknown one."""
    base = value() if isinstance(value, type) else value
    try:
        return changed(base, {key: _plain(one) for key, one in table.items()})
    except (ConfigError, TypeError) as error:
        raise ConfigError(f"{name}.{error}") from error


def _plain(value: Any) -> Any:  # noqa: ANN401 - of TOML
    return tuple(_plain(one) for one in value) if isinstance(value, list) else value


@contextmanager
def _within(name: str) -> Iterator[None]:
    """Name the table of an error."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error
