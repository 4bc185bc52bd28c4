"""Minimise a failing seed: `python -m tests.swarm.minimise SEED`.

Removes faults, jobs and sites, many at a time and then one by one, as long as the run breaks in the
same way. Prints the rest with the one command that repeats it.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from koala.core.model.values import JobId, SiteName
from tests.swarm.drawing.seed import draw
from tests.swarm.run import Run
from tests.swarm.scenario import Scenario
from tests.swarm.system.faults import HAPPENING, Fault

RUNS_MAX = 150
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Subset of a scenario; faults None means all."""

    faults: tuple[Fault, ...] | None
    jobs: tuple[JobId, ...]
    sites: tuple[SiteName, ...]

    def of(self, whole: Scenario) -> Scenario:
        """Restrict the scenario to this part."""
        specs = {job: spec for job, spec in whole.specs.items() if job in self.jobs}
        return replace(
            whole,
            only=None if self.faults is None else frozenset(self.faults),
            specs=specs,
            settings=tuple(s for s in whole.settings if s.name in self.sites),
            replicas=tuple(r for r in whole.replicas if r[1] in self.sites),
            locals_=tuple(entry for entry in whole.locals_ if entry[1] in self.sites),
        )

    def command(self, seed: int) -> str:
        """Return the command that repeats it."""
        named = ["--jobs", ",".join(self.jobs), "--sites", ",".join(self.sites)]
        if self.faults is not None:
            named += ["--faults", ",".join(f"{kind}:{n}" for kind, n in self.faults) or "none"]
        return f"python -m tests.swarm.minimise {seed} " + " ".join(named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """Failure of a run: a short signature to compare failures by, and its story."""

    how: str
    story: str
    struck: tuple[Fault, ...]


def try_out(scenario: Scenario) -> Broken | None:
    """Run a part; None when all promises held."""
    run = Run(scenario)
    try:
        run.play()
    except Exception as error:  # noqa: BLE001 - whatever breaks it is what is looked for
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        how = re.sub(r"[0-9][\w./#-]*", "N", text)[:60]
        last = "\n".join(line[:200] for line in [*run.oracle.record.last][-25:])
        return Broken(how=how, story=f"{last}\n{text}", struck=tuple(run.plan.struck))
    return None


class Search:
    """Search for a minimal failing part."""

    def __init__(self, whole: Scenario, broken: Broken) -> None:
        self.whole = whole
        self.broken = broken
        self.runs = 0

    def breaks(self, part: Part) -> bool:
        """True if the part breaks in the same way."""
        if self.runs >= RUNS_MAX:
            return False
        self.runs += 1
        if sys.stderr.isatty():
            print(f"run {self.runs} of {RUNS_MAX} at most", file=sys.stderr, end="\r")
        found = try_out(part.of(self.whole))
        if found is None or found.how != self.broken.how:
            return False
        self.broken = found
        return True

    def smallest(self) -> Part:
        """Remove unnecessary items until nothing more can go."""
        part = whole_of(self.whole, self.broken.struck)
        while True:
            before = part
            part = self._fewer_jobs(part)  # first: smaller runs are quicker
            part = self._fewer_sites(part)
            part = self._fewer_faults(part)
            if part == before or self.runs >= RUNS_MAX:
                return part

    def _fewer_faults(self, part: Part) -> Part:
        faults = reduced(
            part.faults or (), lambda kept: self.breaks(replace(part, faults=tuple(kept)))
        )
        return replace(part, faults=tuple(faults))

    def _fewer_jobs(self, part: Part) -> Part:
        jobs = reduced(part.jobs, lambda kept: self.breaks(replace(part, jobs=tuple(kept))))
        return replace(part, jobs=tuple(jobs))

    def _fewer_sites(self, part: Part) -> Part:
        needed = {name for job in part.jobs for name in sites_named(self.whole, job)}

        def breaks(kept: Sequence[SiteName]) -> bool:
            return needed <= set(kept) and self.breaks(replace(part, sites=tuple(kept)))

        return replace(part, sites=tuple(reduced(part.sites, breaks)))


def whole_of(scenario: Scenario, struck: tuple[Fault, ...] | None) -> Part:
    """Return the whole scenario as a part."""
    sites = tuple(setting.name for setting in scenario.settings)
    return Part(faults=struck, jobs=tuple(scenario.specs), sites=sites)


def sites_named(scenario: Scenario, job: JobId) -> Iterator[SiteName]:
    """Return the sites that a job cannot do without."""
    spec = scenario.specs[job]
    if spec.queue is not None:
        yield spec.queue
    for component in spec.components:
        if component.site is not None:
            yield component.site


def reduced(items: Sequence[T], is_enough: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Reduce a part while it still fails: remove chunks, then half as large ones, down to single
    items (delta debugging)."""
    size = len(items)
    while size >= 1 and items:
        at = 0
        while at < len(items):
            kept = [*items[:at], *items[at + size :]]
            if is_enough(kept):
                items = kept
            else:
                at += size
        size //= 2
    return items


def describe(part: Part, whole: Scenario) -> Iterator[str]:
    """Describe the result, for a person."""
    happenings = dict(enumerate(Run(whole).plan.happenings))
    for kind, number in part.faults or ():
        if kind == HAPPENING:
            what = happenings[number]
            yield f"  {what.at:9.3f} {what.kind}, for {what.lasts_s:.3f} s, pick {what.pick:.3f}"
        else:
            yield f"            {kind}, asked for the {number + 1}. time"
    for job in part.jobs:
        spec = whole.specs[job]
        sizes = ", ".join(f"{c.processors} {c.start_type}" for c in spec.components)
        yield f"  {whole.arrivals[job]:9.3f} {job}: {sizes}"
    for setting in whole.settings:
        if setting.name in part.sites:
            yield f"            {setting.name}: {setting.facts.processors} processors"


def _faults(text: str) -> tuple[Fault, ...]:
    if text == "none":
        return ()
    pairs = (entry.rsplit(":", 1) for entry in text.split(","))
    return tuple((kind, int(number)) for kind, number in pairs)


def main(arguments: list[str] | None = None) -> int:
    """Search, or repeat the result of a search; return 1 when it breaks."""
    parser = argparse.ArgumentParser(prog="tests.swarm.minimise", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--faults", help="only these: kind:number,...")
    parser.add_argument("--jobs", help="only these")
    parser.add_argument("--sites", help="only these")
    options = parser.parse_args(arguments)
    whole = draw(options.seed)
    part = whole_of(whole, None)
    if options.jobs or options.sites or options.faults:
        part = Part(
            faults=_faults(options.faults) if options.faults else None,
            jobs=tuple(JobId(j) for j in options.jobs.split(",")) if options.jobs else part.jobs,
            sites=tuple(SiteName(s) for s in options.sites.split(","))
            if options.sites
            else part.sites,
        )
        broken = try_out(part.of(whole))
    else:
        broken = try_out(whole)
        if broken is not None:
            search = Search(whole, broken)
            part, broken = search.smallest(), search.broken
            print(f"after {search.runs} runs there are left:")
    if broken is None:
        print(f"seed {options.seed} breaks nothing")
        return 0
    print(*describe(part, whole), sep="\n")
    print(broken.story)
    print(f"repeat with: {part.command(options.seed)}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
