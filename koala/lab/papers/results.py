"""Measurements of all runs of a sweep, by setting and seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf

from koala.lab.papers.paper import Comparison, Difference, Drawn, parts_of
from koala.lab.sim.runs import Outcome, Quantity, Run, Setting, most_are_saturated
from koala.lab.sim.statistics import Interval, interval


class Results:
    """The finished runs. Figures and claims read from here, so they share every run.

    Saturation of a setting is judged from the seeds that all settings have finished, if there are
    any. In an interrupted sweep some settings have one more, and two systems that behave alike
    would get different verdicts.
    """

    def __init__(
        self,
        finished: Iterable[tuple[Run, Outcome]],
        *,
        diverging: tuple[str, ...] = (),
        saturation: Callable[[Sequence[Outcome]], bool] = most_are_saturated,
    ) -> None:
        self._outcomes: dict[Setting, dict[int, Outcome]] = {}
        self._diverging = diverging
        self._means: dict[Quantity, Interval] = {}
        for run, outcome in finished:
            self._outcomes.setdefault(run.setting, {})[run.seed] = outcome
        common = self._seeds(self._outcomes)
        self._saturated = {
            setting: saturation(
                [one for seed, one in found.items() if seed in common or not common]
            )
            for setting, found in self._outcomes.items()
        }

    def replications(self, setting: Setting) -> int:
        """Count the finished runs of this setting."""
        return len(self._outcomes.get(setting, {}))

    def is_saturated(self, setting: Setting) -> bool:
        """True if the setting is saturated, judged from the seeds that all settings share."""
        return self._saturated.get(setting, False)

    def is_divergent(self, quantity: Quantity) -> bool:
        """True if there is no finite mean: it would be larger after a longer run."""
        diverges = quantity.metric.startswith(self._diverging) if self._diverging else False
        return diverges and self.is_saturated(quantity.setting)

    def interval(self, quantity: Quantity) -> Interval:
        """Return the mean over the replications; infinite where it diverges."""
        if quantity not in self._means:  # many claims compare it
            self._means[quantity] = self.contrast((quantity,), _itself)
        return self._means[quantity]

    def compared(self, one: Comparison) -> Interval:
        """Return the mean contrast of a comparison."""
        return self.contrast(one.of, one.contrast)

    def drawn(self, one: Drawn) -> Interval:
        """Return the mean of what a chart shows; not finite where a part of it diverges."""
        if isinstance(one, Difference):
            return self.contrast(one.of, one.contrast)
        return self.interval(one)

    def is_drawn_saturated(self, one: Drawn) -> bool:
        """True if a part of what a chart shows has no finite mean."""
        return any(map(self.is_divergent, parts_of(one)))

    def is_any_saturated(self, one: Drawn) -> bool:
        """True if a setting of what a chart shows is saturated, whatever is measured of it."""
        return any(self.is_saturated(part.setting) for part in parts_of(one))

    def replications_of(self, one: Drawn) -> int:
        """Count the finished runs behind what a chart shows."""
        return min(self.replications(part.setting) for part in parts_of(one))

    def contrast(self, of: tuple[Quantity, ...], function: Callable[..., float]) -> Interval:
        """Return the mean of `function` over the seeds that all settings of these quantities have
        finished. Common random numbers make the shared variation cancel in each replication.

        Where quantities diverge, `function` takes infinities for them and means for the others,
        with no width: saturation itself decides. It does not decide after a single replication, as
        in an interrupted sweep.
        """
        if any(self.is_divergent(quantity) for quantity in of):
            values = [inf if self.is_divergent(one) else self.interval(one).mean for one in of]
            common = len(self._seeds(one.setting for one in of))
            width = 0.0 if common > 1 else inf
            return Interval(mean=function(*values), ci95=width, values=common)
        return interval(list(self.runs(of, function).values()))

    def contrasts(self, one: Comparison) -> dict[int, float]:
        """Return the contrast of a comparison by seed."""
        return self.runs(one.of, one.contrast)

    def runs(self, of: tuple[Quantity, ...], function: Callable[..., float]) -> dict[int, float]:
        """Return `function` of these quantities by the seeds that all their settings have
        finished."""
        return {
            seed: function(*(self._outcomes[one.setting][seed].values[one.metric] for one in of))
            for seed in self._seeds(one.setting for one in of)
        }

    def notes(self, of: tuple[Quantity, ...], seed: int) -> tuple[str, ...]:
        """Return the notes of the runs of these quantities with this seed."""
        settings = dict.fromkeys(one.setting for one in of)
        return tuple(note for one in settings for note in self._outcomes[one][seed].notes)

    def _seeds(self, settings: Iterable[Setting]) -> list[int]:
        """List the seeds that all these settings have finished."""
        seeds = [self._outcomes.get(setting, {}).keys() for setting in settings]
        return sorted(set(seeds[0]).intersection(*seeds[1:])) if seeds else []


def tabled(found: Interval) -> Interval:
    """Return an interval as tables hold it, so that texts and drawings are the same whether they
    are made of runs or of published tables."""
    return replace(found, mean=float(digits(found.mean)), ci95=float(digits(found.ci95)))


def digits(value: float) -> str:
    """Write a number of a table."""
    return f"{value:.6g}"


def _itself(value: float) -> float:
    return value
