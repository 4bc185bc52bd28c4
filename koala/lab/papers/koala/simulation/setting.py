"""The parameters of KOALA's experiment."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Literal

from koala.common.runtime.option_values import (
    Bounds,
    numbers,
    one_of,
    pair,
    site_sizes,
    whole_numbers,
)
from koala.core.model.parameters import BOUNDS, NAMES, PAPER, WORDS, Parameters
from koala.core.model.values import Instant, Seconds, SiteName
from koala.lab.sim.options import (
    JOBS_MAX,
    Declared,
    Option,
    declared,
    flag,
    number,
    policy,
    require,
    require_declared,
    text,
)

GB = 1_000_000_000
CLAIM_ERRS = 0.01
CLAIM_ERRS_BAD = 0.1
COMPONENT_FAILS = 0.06
COMPONENT_FAILS_BAD = 0.2
PARAMETERS = replace(PAPER, consecutive_errors_max=8, hold_s=86_400.0)


def _of_scheduler(parameter: str, name: str, text: str) -> Option:
    default = getattr(PARAMETERS, parameter)
    if parameter in WORDS:
        allowed = WORDS[parameter]
        read = partial(one_of, allowed=allowed)
        return Option(
            default=default, kind="choice", name=name, help=text, read=read, words=allowed
        )
    kind: Literal["whole", "number"] = "whole" if isinstance(default, int) else "number"
    low, high = BOUNDS[parameter]
    return Option(
        default=default, kind=kind, name=name, help=text, bounds=Bounds(low=low, high=high)
    )


_SCHEDULER = {
    "queue_jobs_max": "queue-limit: Jobs in both placement queues; a further submission is"
    " delayed.",
    "scan_interval_s": "scan: Time between two scans of a queue.",
    "high_scans_per_low": "high-scans: S: scans of the high queue for each scan of the low one.",
    "claim_fraction": "claim-fraction: L: share of the time to the start that passes before a try.",
    "claim_fraction_step": "step: Decrease of L each time a job returns.",
    "claim_fraction_min": "floor: Lower bound of L.",
    "claim_threshold": "threshold: T: least startable fraction of the components; 1: atomic.",
    "claiming_step_min_s": "step-min: A shorter step to the next claiming try lands on the start.",
    "placement_tries_max": "placement-tries: Most placement tries of a job; 0: no limit.",
    "claiming_tries_max": "claiming-tries: Most claiming tries of a job; 0: no limit.",
    "hold_s": "hold: Longest time a claim is held unused.",
    "consecutive_errors_max": "errors-max: Consecutive errors after which a site is unusable.",
    "preempt": "preempt: Low-priority jobs yield to a component (as in the paper), or only if the"
    " complete job of high priority then fits; none: never.",
}
"""Names and help texts of options, by their parameters."""
SCHEDULER: dict[str, Option] = {
    parameter: _of_scheduler(parameter, *text.split(": ", 1))
    for parameter, text in _SCHEDULER.items()
}
"""Parameters of the scheduler that the experiment shows, and their options."""


def _gigabytes(option: str, text: str) -> tuple[int, ...]:
    return tuple(round(size * GB) for size in numbers(option, text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One point of the experiment; the defaults are the paper's where it prints a value, and else
    ours (`OURS`). Instants count from the moment at which the first job may be submitted.
    """

    # the grid (KOALA 2.1, 5.1)
    sites: tuple[int, ...] = text(
        "130,3x60", site_sizes, "Processors of each site; 3x60: three of 60.", metavar="SIZES"
    )
    lost_site: int | None = number(
        4,
        "The site that breaks down, counted from 1; 0: none.",
        bounds=Bounds(low=0),
        read=lambda _, site: site or None,
    )
    lost_at_s: Instant = number(36_000.0, "Time of the breakdown.", bounds=Bounds(low=0))
    bandwidth_bps: float = number(
        12_500_000.0,
        "Bandwidth between two sites.",
        name="bandwidth",
        metavar="MBIT/S",
        bounds=Bounds(above=0),
        given=100.0,
        read=lambda _, mbits: mbits * 1e6 / 8,
    )
    shared_links: bool = flag(
        "Each copy has the whole bandwidth.", name="exclusive-links", default=True
    )
    discipline: str = policy("easy", "local", "Queue discipline of the local managers:")
    grace_s: Seconds = number(
        1.0, "Longest time a claim waits in a local queue.", bounds=Bounds(above=0)
    )
    # the jobs (KOALA 4.2)
    jobs: int = number(500, "Jobs to be co-allocated.", bounds=Bounds(low=1, high=JOBS_MAX))
    interval_s: Seconds = number(
        120.0, "Mean time between two submissions.", bounds=Bounds(above=0)
    )
    sizes: tuple[int, ...] = text(
        "36,72", whole_numbers, "Processors of a job; each equally often.", metavar="N,..."
    )
    components: tuple[int, ...] = text(
        "3,4,6,8",
        whole_numbers,
        "Components of a job, all equally large; each equally often.",
        metavar="N,...",
    )
    component_above: int = number(
        8, "A component has more processors than this.", bounds=Bounds(low=0)
    )
    file_bytes: tuple[int, ...] = text(
        "4,8",
        _gigabytes,
        "Sizes of an input file; each equally often.",
        name="files",
        metavar="GBYTE,...",
    )
    replicas: int = number(2, "Sites that hold a file.", bounds=Bounds(low=1))
    run_s: tuple[Seconds, Seconds] = text(
        "30:192", pair("LOW:HIGH", "30:192"), "Run time in seconds; uniform.", metavar="LOW:HIGH"
    )
    high_share: float = number(
        0.5, "Share of jobs with high priority.", name="high", bounds=Bounds(low=0, high=1)
    )
    # the regular load (KOALA 4.2, 5.1)
    local_load: float = number(
        0.74,
        "Offered load of the regular users; 1 is all processors.",
        bounds=Bounds(low=0, below=1),
    )
    local_sizes: tuple[int, ...] = text(
        "1,2,4,8,16",
        whole_numbers,
        "Processors of a regular user's job; each equally often.",
        metavar="N,...",
    )
    local_run_s: Seconds = number(
        300.0, "Mean run time of regular users' jobs; exponential.", bounds=Bounds(above=0)
    )
    local_estimate: float = number(
        2.0, "Their estimates, in multiples of their run times.", bounds=Bounds(low=1)
    )
    warmup_s: Seconds = number(
        7200.0, "Time with regular users alone before the first job.", bounds=Bounds(low=0)
    )
    # what fails (KOALA 4.3, 5.2); one probability for all sites, or one for each
    claim_errs: tuple[float, ...] = declared(
        (*(CLAIM_ERRS,) * 3, CLAIM_ERRS_BAD),
        Option(
            default=None,
            help="Probability that a claim errs: at every site, or at each.",
            metavar="FRACTION,...",
            unset="0.01, and 0.1 at the lost site",
        ),
    )
    component_fails: tuple[float, ...] = declared(
        (*(COMPONENT_FAILS,) * 3, COMPONENT_FAILS_BAD),
        Option(
            default=None,
            help="Probability that a running component is lost, likewise.",
            metavar="FRACTION,...",
            unset="0.06, and 0.2 at the lost site",
        ),
    )
    # the scheduler (KOALA 4)
    placement: str = policy(
        "CF", "placement", "Placement policy; CF is Close-to-Files, WF Worst-Fit:"
    )
    queueing: str = policy("koala", "queueing", "Queue discipline or order of the grid's jobs:")
    claiming: str = policy("ICP", "claiming", "Claiming policy:")
    parameters: Parameters = PARAMETERS
    # the measurement
    bin_s: Seconds = number(
        1200.0, "Averaging interval of the utilisation.", bounds=Bounds(above=0)
    )
    horizon_s: Seconds = number(
        60 * 86_400.0,
        "Simulated time after which a run ends in any case.",
        metavar="DAYS",
        bounds=Bounds(above=0),
        given=60.0,
        read=lambda _, days: days * 86_400.0,
    )

    def __post_init__(self) -> None:
        require_declared(self)
        count = len(self.sites)
        require(count > 0 and min(self.sites) > 0, "sites", self.sites, "processors of each site")
        require(
            self.lost_site is None or 1 <= self.lost_site <= count,
            "lost_site", self.lost_site, f"1 to {count}, or none",
        )  # fmt: skip
        require(1 <= self.replicas <= count, "replicas", self.replicas, f"1 to {count}, one a site")
        are_sizes = bool(self.file_bytes) and min(self.file_bytes) >= 0
        require(are_sizes, "file_bytes", self.file_bytes, "sizes of 0 or more, at least one")
        low_s, high_s = self.run_s
        require(0 < low_s <= high_s, "run_s", self.run_s, "LOW:HIGH, above 0")
        require(
            bool(self.local_sizes) and 1 <= min(self.local_sizes) <= max(self.local_sizes)
            and max(self.local_sizes) <= min(self.sites),
            "local_sizes", self.local_sizes, f"1 to {min(self.sites)}, the smallest site",
        )  # fmt: skip
        for name in ("claim_errs", "component_fails"):
            found = getattr(self, name)
            require(
                len(found) in (1, count) and all(0 <= one <= 1 for one in found),
                name, found, f"probabilities, one for all sites or {count}",
            )  # fmt: skip
        for size in self.sizes:
            self.allowed(size)

    def allowed(self, size: int) -> tuple[int, ...]:
        """Numbers of components into which a job of this size may be split: equal ones, and large
        enough. Raises ConfigError if there is none."""
        found = tuple(
            count
            for count in self.components
            if count > 0 and size % count == 0 and size // count > self.component_above
        )
        require(
            bool(found), "sizes", size,
            f"sizes that one of {self.components} splits into equal components larger than"
            f" {self.component_above}",
        )  # fmt: skip
        left = [p for number, p in enumerate(self.sites, start=1) if number != self.lost_site]
        for count in found:
            room = sum(processors // (size // count) for processors in left)
            require(
                room >= count, "sizes", size,
                f"what fits into sites of {left} in {count} components, or it waits forever",
            )  # fmt: skip
        return found

    @property
    def names(self) -> tuple[SiteName, ...]:
        """Names of the sites."""
        return tuple(SiteName(f"site{number}") for number in range(1, len(self.sites) + 1))

    def each(self, rates: tuple[float, ...]) -> tuple[float, ...]:
        """Return a probability for each site."""
        return rates * len(self.sites) if len(rates) == 1 else rates

    @property
    def groups(self) -> tuple[Group, ...]:
        """List the groups: all jobs; then by size, number of components and priority, each of which
        may be open."""
        splits: list[tuple[int | None, int | None]] = [(None, None)]
        splits += [(size, None) for size in self.sizes]
        counts = sorted({count for size in self.sizes for count in self.allowed(size)})
        splits += [(None, count) for count in counts]
        splits += [(size, count) for size in self.sizes for count in self.allowed(size)]
        return tuple(
            Group(processors=size, components=count, priority=priority)
            for size, count in splits
            for priority in (None, "high", "low")
        )

    def __str__(self) -> str:
        default = Setting()
        changed = [
            f"{name} {value}" for name, value in self.document().items()
            if value != default.document()[name]
        ]  # fmt: skip
        return ", ".join(changed) or "as printed"

    def document(self) -> dict[str, Any]:
        """Return every parameter by name, for JSON; those of the scheduler that the experiment
        names come beside the others."""
        plain = {
            entry.name: getattr(self, entry.name)
            for entry in fields(self)
            if entry.name != "parameters"
        }
        limits = {name: getattr(self.parameters, name) for name in NAMES if name in SCHEDULER}
        found = {**plain, **limits}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in found.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Jobs of a size, number of components and priority; None: of any."""

    processors: int | None = None
    components: int | None = None
    priority: str | None = None

    def __str__(self) -> str:
        split = "" if self.components is None else f"x{self.components}"
        size = f"{self.processors or ''}{split}"
        return ".".join(word for word in (size, self.priority) if word) or "all"


OURS: dict[str, str] = {
    "lost_site, lost_at_s": "the paper says that a site of 60 was removed, not when or how:"
    " it breaks down at an instant, and the scheduler finds that out by its errors",
    "shared_links": "copies share the 100 Mbit/s of a link; the estimates do not know",
    "discipline, grace_s": "openPBS starts jobs past a head that waits; a claim starts at once or"
    " is refused",
    "interval_s": "the paper gives no arrival rate; this fills the queues to their limit",
    "file_bytes": "a GByte is 10^9 bytes",
    "run_s": "the paper gives the range; we draw uniformly",
    "local_load, local_sizes, local_run_s, local_estimate": "chosen so that 80 to 90 % are busy"
    " while jobs arrive",
    "claim_errs, component_fails": "the paper gives no rates; these make about 30 % of the runs"
    " fail (the paper: well above 15 %), and more at the site that is lost",
    "hold_s": "the paper knows no longest hold; no claim here waits that long",
    "consecutive_errors_max": "the paper prints none; fewer would remove good sites, too, because"
    " only components that end well reset the count",
}
"""Values that are not in the paper, with the reason for each."""


def _setting(**values: Any) -> Setting:  # noqa: ANN401
    """Make the setting; the parameters of the scheduler, and rates at the lost site, are not its
    fields."""
    limits = {name: values.pop(name) for name in SCHEDULER}
    limits["claim_fraction_min"] = min(limits["claim_fraction_min"], limits["claim_fraction"])
    for name, rate, bad_rate in (
        ("claim_errs", CLAIM_ERRS, CLAIM_ERRS_BAD),
        ("component_fails", COMPONENT_FAILS, COMPONENT_FAILS_BAD),
    ):
        if values[name] is None:
            count, lost = len(values["sites"]), values["lost_site"]
            values[name] = tuple(bad_rate if n == lost else rate for n in range(1, count + 1))
        else:
            values[name] = numbers(name.replace("_", "-"), values[name])
    return Setting(parameters=replace(PARAMETERS, **limits), **values)


SIMULATION = Declared.of(Setting, make=_setting, more=SCHEDULER)
