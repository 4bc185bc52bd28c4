"""Runs that figures and claims need, each made once, in one pool of processes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from koala.errors import ConfigError
from koala.papers.paper import Claim, Effort, Figure, Paper, Quantity, Run, Setting
from koala.papers.results import Results
from koala.sim.replication import Progress, replicate


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Plan of a reproduction: a paper or one figure of it, and the effort."""

    paper: Paper
    effort: Effort
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
    seed: int = 1

    def settings(self) -> tuple[Setting, ...]:
        """List every setting that a figure draws or a claim compares, once, in that order."""
        return tuple(dict.fromkeys(quantity.setting for quantity in self._quantities()))

    def runs(self) -> tuple[Run, ...]:
        """List all first replications before all second ones, so that an interrupted sweep has some
        of everything."""
        settings = self.settings()
        return tuple(
            Run(setting=setting, seed=seed, effort=self.effort)
            for seed in range(self.seed, self.seed + self.effort.replications)
            for setting in settings
        )

    def _quantities(self) -> Iterable[Quantity]:
        for figure in self.figures:
            yield from figure.quantities()
        for claim in self.claims:
            for comparison in claim.comparisons((*self.effort.levels, *self.paper.readings)):
                yield from comparison.of


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """Results of a plan; those of all runs unless `is_interrupted`."""

    plan: Plan
    results: Results
    finished: int
    is_interrupted: bool


def plan(paper: Paper, effort: Effort, *, figure: int | None = None, seed: int = 1) -> Plan:
    """Plan the whole paper, or one figure and the claims about it."""
    numbers = [one.number for one in paper.figures]
    if figure is not None and figure not in numbers:
        allowed = ", ".join(str(number) for number in numbers)
        raise ConfigError(f"--figure {figure}: allowed for {paper.name} are {allowed}")
    return Plan(
        paper=paper,
        effort=effort,
        figures=tuple(one for one in paper.figures if figure in (None, one.number)),
        claims=tuple(one for one in paper.claims if figure is None or figure in one.figures),
        seed=seed,
    )


def sweep(wanted: Plan, *, workers: int = 0, progress: Progress | None = None) -> Swept:
    """Make all runs of a plan. Ctrl-C ends it and keeps the finished runs."""
    runs: Sequence[Run] = wanted.runs()
    made = replicate(wanted.paper.run, runs, workers=workers, progress=progress)
    return Swept(
        plan=wanted,
        results=Results(
            made.finished,
            diverging=wanted.paper.diverging,
            saturation=wanted.paper.saturation,
        ),
        finished=len(made.finished),
        is_interrupted=made.is_interrupted,
    )
