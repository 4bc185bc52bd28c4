"""Replications of the experiment put together, as the document that `--json` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from koala.lab.papers.malleable.simulation.run import Measured
from koala.lab.papers.malleable.simulation.setting import Setting
from koala.lab.sim.statistics import Interval, intervals


def summarize(runs: Sequence[Measured]) -> dict[str, Interval]:
    """Compute the mean of each metric over the replications, with its interval."""
    return intervals([run.values for run in runs], runs[0].values)


def document(setting: Setting, found: dict[str, Interval], seeds: Sequence[int]) -> dict[str, Any]:
    """Return the means as plain data."""
    nested: dict[str, Any] = {"setting": setting.document(), "seeds": list(seeds)}
    for name, mean in found.items():
        measure, _, group = name.partition(".")
        if group:
            nested.setdefault(measure, {})[group] = mean.document()
        else:
            nested[measure] = mean.document()
    return nested
