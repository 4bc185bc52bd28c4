"""Answers of a twin on one page: would the jobs have started, what would holding have cost, and
what would it have cost the sites' own users."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite, isnan, nan

from koala.lab.rows import Row
from koala.lab.sim.statistics import Interval, interval
from koala.lab.twin.durations import HOUR_S, MINUTE_S, duration, unit_of
from koala.lab.twin.questions import Folder
from koala.views.units import counted

FAITHFUL = 0.5
"""Largest relative difference of mean waits, recorded and in the twin, that is not pointed out."""
WAIT = "sites.{}.local_wait.{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteAnswer:
    """Waits of a site's own users, in seconds: as recorded, in the twin alone, and with the
    co-allocated jobs; `difference` is over the seeds."""

    name: str
    processors: int
    jobs: int
    recorded_s: float
    alone_s: float
    with_s: Interval
    difference_s: Interval
    p95_alone_s: float
    p95_with_s: float

    @property
    def verdict(self) -> str:
        """Return `longer`, `shorter`, `equal` or `undecided`."""
        return self.difference_s.verdict("longer", "shorter")

    @property
    def is_unlike(self) -> bool:
        """True if the twin alone has quite other waits than were recorded."""
        if not isfinite(self.recorded_s) or not isfinite(self.alone_s):
            return False
        larger = max(self.recorded_s, self.alone_s)
        return larger > MINUTE_S and abs(self.recorded_s - self.alone_s) > FAITHFUL * larger


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Results over the seeds. `held` and `used` are in processor-hours, waits in seconds."""

    folder: Folder
    question: str
    replications: int
    jobs: Interval
    too_large: Interval
    started: Interval
    in_1h: Interval
    in_24h: Interval
    on_several: Interval
    wait_s: Interval
    wait_p95_s: Interval
    held_h: Interval
    used_h: Interval
    sites: tuple[SiteAnswer, ...]


def answer(folder: Folder, question: str, alone: Row, runs: Sequence[Row]) -> Answer:
    """Compare the twin alone, one run, with runs that have the co-allocated jobs."""

    def over(name: str, scale: float = 1.0) -> Interval:
        values = [scale * float(row.get(name, nan)) for row in runs]
        return interval([value for value in values if not isnan(value)])

    sites = []
    for site in folder.sites:
        mean = WAIT.format(site.name, "mean")
        base = float(alone.get(mean, nan))
        sites.append(
            SiteAnswer(
                name=site.name,
                processors=site.processors,
                jobs=site.jobs,
                recorded_s=site.mean_wait_s,
                alone_s=base,
                with_s=over(mean),
                difference_s=interval([float(row.get(mean, nan)) - base for row in runs]),
                p95_alone_s=float(alone.get(WAIT.format(site.name, "p95"), nan)),
                p95_with_s=over(WAIT.format(site.name, "p95")).mean,
            )
        )
    return Answer(
        folder=folder,
        question=question,
        replications=len(runs),
        jobs=over("jobs"),
        too_large=over("dropped.too_large"),
        started=over("started"),
        in_1h=over("started_in_1h", 100),
        in_24h=over("started_in_24h", 100),
        on_several=over("on_several_sites"),
        wait_s=over("wait.mean"),
        wait_p95_s=over("wait.p95"),
        held_h=over("held_processor_s", 1 / HOUR_S),
        used_h=over("used_processor_s", 1 / HOUR_S),
        sites=tuple(sites),
    )


def document(found: Answer) -> dict[str, object]:
    """Return the answer for JSON: null is not known."""
    plain = {
        name: getattr(found, name).document()
        for name in (
            *("jobs", "too_large", "started", "in_1h", "in_24h", "on_several"),
            *("wait_s", "wait_p95_s", "held_h", "used_h"),
        )
    }
    return {
        "version": 1,
        "folder": str(found.folder.path),
        "question": found.question,
        "period_s": found.folder.period_s,
        "replications": found.replications,
        **plain,
        "sites": {
            site.name: {
                "processors": site.processors,
                "jobs": site.jobs,
                "wait_recorded_s": _known(site.recorded_s),
                "wait_alone_s": _known(site.alone_s),
                "wait_with_s": site.with_s.document(),
                "difference_s": site.difference_s.document(),
                "wait_p95_alone_s": _known(site.p95_alone_s),
                "wait_p95_with_s": _known(site.p95_with_s),
                "verdict": site.verdict,
            }
            for site in found.sites
        },
    }


def page(found: Answer) -> str:
    """Write the page, in Markdown that also reads well in a terminal."""
    return "\n".join([*_head(found), *_starts(found), *_holds(found), *_users(found), *LIMITS])


LIMITS = (
    "",
    "## Limits of this answer",
    "",
    "- Each site is one pool of processors under EASY backfill: no partitions, priorities,",
    "  reservations, memory or node boundaries. *Recorded* beside *alone* shows how far off it is.",
    "- Users submit at the recorded instants, whatever they wait.",
    "- Jobs from before the recording are missing: its first hours are emptier than they were.",
)


def _head(found: Answer) -> Iterator[str]:
    sites = ", ".join(f"{site.name} ({site.processors})" for site in found.sites)
    yield f"# Co-allocation on {sites}"
    yield ""
    yield (
        f"{counted(sum(site.jobs for site in found.sites), 'recorded job')} in"
        f" {duration(found.folder.period_s)}, and in addition {found.question}."
    )
    yield f"Means of {counted(found.replications, 'run')} with 95 % confidence intervals."


def _starts(found: Answer) -> Iterator[str]:
    yield from ("", "## Would these jobs have started?", "")
    runs = f" of {found.replications} runs" if found.replications > 1 else ""
    yield (
        f"- {_total(found.started)} of {_total(found.jobs, 'job')}{runs} started,"
        f" {_total(found.on_several)} of them on several sites."
    )
    if found.too_large.mean > 0:
        yield f"- {_total(found.too_large, 'job')} larger than all sites together left out."
    yield f"- Within an hour: {_percent(found.in_1h)} %; within a day: {_percent(found.in_24h)} %."
    yield (
        f"- They waited {_time(found.wait_s)} in the mean; of each twenty, one waited"
        f" {duration(found.wait_p95_s.mean)} or longer."
    )


def _holds(found: Answer) -> Iterator[str]:
    yield from ("", "## What would holding have cost?", "")
    used, held = found.used_h.mean, found.held_h.mean
    share = f", {100 * held / used:.2f} % of the use ({_hours(found.used_h)})" if used else ""
    text = f"{_hours(found.held_h)} processor-hours were held until all components were there"
    yield f"- {text}{share}."


def _users(found: Answer) -> Iterator[str]:
    yield from ("", "## What would it have cost the sites' own users?", "")
    rows = [
        ("site", "jobs", "recorded", "alone", "with", "difference", "p95 alone", "p95 with", "")
    ]
    rows += [
        (
            site.name,
            str(site.jobs),
            duration(site.recorded_s),
            duration(site.alone_s),
            duration(site.with_s.mean),
            _time(site.difference_s, signed=True),
            duration(site.p95_alone_s),
            duration(site.p95_with_s),
            site.verdict,
        )
        for site in found.sites
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"| {' | '.join(cells)} |"
        if not number:
            yield f"|{'|'.join('-' * (width + 2) for width in widths)}|"
    yield ""
    yield (
        "Mean waits: as recorded, in the twin alone, and with the co-allocated jobs. The difference"
        " is to *alone*."
    )
    for site in found.sites:
        if site.is_unlike:
            yield (
                f"**The twin of {site.name} is not like the site:** its users waited"
                f" {duration(site.recorded_s)}, in the twin {duration(site.alone_s)}. Take its"
                " differences as an order of magnitude."
            )


def _time(found: Interval, *, signed: bool = False) -> str:
    """Write a mean and its half-width in one unit."""
    if not isfinite(found.mean):
        return "-"
    width = found.ci95 if isfinite(found.ci95) else 0.0
    unit_s, name = unit_of(max(abs(found.mean), width))
    text = f"{found.mean / unit_s:{'+' if signed else ''}.1f}"
    if isfinite(found.ci95) and found.ci95 > 0:
        text += f" ± {found.ci95 / unit_s:.1f}"
    return f"{text} {name}"


def _hours(found: Interval) -> str:
    """Write processor-hours with their half-width; few ones are not written as powers of ten."""
    return "less than 0.01" if 0 < found.mean + found.ci95 < 0.01 else str(found)


def _total(found: Interval, noun: str = "") -> str:
    """Write the sum over all runs: a mean of jobs would be no number of jobs."""
    if isnan(found.mean):
        return "-"
    total = round(found.mean * found.values)
    return counted(total, noun) if noun else str(total)


def _percent(found: Interval) -> str:
    """Write a mean share without its interval; one that is not all is never rounded to all."""
    if isnan(found.mean):
        return "-"
    text = f"{found.mean:.1f}".removesuffix(".0")
    return "99.9" if text == "100" and found.mean < 100 else text


def _known(value: float) -> float | None:
    return value if isfinite(value) else None
