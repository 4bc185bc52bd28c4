"""Runs that figures and claims need, each made once, in one pool of processes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from koala.errors import ConfigError
from koala.lab.papers.paper import Claim, Figure, Paper
from koala.lab.sim.campaign.code import code_of, own_code
from koala.lab.sim.campaign.identity import canonical, run_ids
from koala.lab.sim.campaign.work import Work
from koala.lab.sim.runs import Effort, Level, Quantity, Run, Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Plan of a reproduction: a paper or one figure of it, and the effort."""

    paper: Paper
    effort: Effort
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
    seed: int = 1
    figure: int | None = None
    """The one figure of the plan; None for the whole paper."""

    @property
    def readings(self) -> tuple[Level, ...]:
        """Other readings under which this effort judges claims."""
        is_left_out = self.effort.name == "quick" and not self.paper.are_readings_quick
        return () if is_left_out else self.paper.readings

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

    def work(self) -> Work[Run]:
        """List the runs with their names, which are the same for every version of Koala."""
        runs = self.runs()
        names = run_ids(
            self.paper.name, [(one.setting, one.seed, one.effort.length) for one in runs]
        )
        own = {one: own_code(canonical(one)) for one in self.settings()}
        return Work(
            run=self.paper.run,
            code=code_of(self.paper.run),
            items=runs,
            names=names,
            own=tuple(own[one.setting] for one in runs),
        )

    def options(self) -> dict[str, Any]:
        """Return the options that determine the results."""
        return {
            "paper": self.paper.name,
            "effort": self.effort.name,
            "figure": self.figure,
            "seed": self.seed,
            "reps": self.effort.replications,
            "length": self.effort.length,
        }

    def _quantities(self) -> Iterable[Quantity]:
        for figure in self.figures:
            yield from figure.quantities()
        for claim in self.claims:
            for comparison in claim.comparisons((*self.effort.levels, *self.readings)):
                yield from comparison.of


def plan(paper: Paper, effort: Effort, *, figure: int | None = None, seed: int = 1) -> Plan:
    """Plan the whole paper, or one figure and the claims about it."""
    numbers = [one.number for one in paper.figures]
    if figure is not None and figure not in numbers:
        numbers_of = ", ".join(str(number) for number in numbers)
        raise ConfigError(f"--figure {figure} (expected one of {numbers_of} for {paper.name})")
    return Plan(
        paper=paper,
        effort=effort,
        figures=tuple(one for one in paper.figures if figure in (None, one.number)),
        claims=tuple(one for one in paper.claims if figure is None or figure in one.figures),
        seed=seed,
        figure=figure,
    )


def head_of(run: Run) -> dict[str, Any]:
    """Return what a line of runs.jsonl says of a run besides its name."""
    return {"setting": str(run.setting), "seed": run.seed, "length": run.effort.length}
