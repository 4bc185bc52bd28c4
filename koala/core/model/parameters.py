"""Parameters of the scheduler, from the papers and our own, with symbol, default and bounds.

The defaults are for the live daemon; `PAPER` has the settings of KOALA's experiment (KOALA 4).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from koala.core.model.values import FOREVER, Seconds
from koala.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """All parameters. A value out of bounds raises ConfigError with the name and the bounds."""

    # queue (KOALA 3.1)
    scan: str = "change"  # or "interval", the paper's
    scan_interval_s: Seconds = 240.0
    high_scans_per_low: int = 2  # S
    placement_tries_max: int = 0  # 0: no limit
    queue_jobs_max: int = 10_000  # both placement queues together
    ageing_s: Seconds = 3600.0  # then a job is visited first and may stop backfilling
    # place (KOALA 2.6)
    count_placed: bool = False  # subtract jobs placed earlier and not yet claimed
    bandwidth_default_bps: float = 12_500_000.0  # bytes a second on a link never observed
    transfer_report_s: Seconds = 1.0  # between two reports of a copy under way, at least
    # place (Hints 3.4)
    preferred_mips: float = 0.0  # default of jobs that state none; 0: any rate will do
    hint_deviation: float = 0.5  # default of hints that state none
    # claim (KOALA 3.2, 3.3)
    claim_fraction: float = 0.75  # L
    claim_fraction_step: float = 0.125
    claim_fraction_min: float = 0.25
    claim_threshold: float = 0.0  # T; 1 is atomic claiming
    claiming_step_min_s: Seconds = 1.0
    claiming_tries_max: int = 100  # 0: no limit
    at_deadline: str = "fail"  # or "kill": local jobs may be killed, where their site allows it
    deadline_fraction: float = 0.7  # Lp
    deadline_tries_max: int = 10  # Mp
    wait_s: Seconds = 0.0  # X is the longer of this ...
    wait_graces: float = 3.0  # ... and of so many of the largest grace of the sites
    claims_open_max: int = 64  # unanswered at a site that takes another job; 0: no limit
    hold_s: Seconds = 900.0  # maxHold
    preempt: str = "complete"  # or "component", the paper's, or "none"
    preempt_rest_s: Seconds = 600.0
    hold_budget_user_s: float = FOREVER  # processor-seconds in 24 h
    hold_budget_site_s: float = FOREVER
    # wait in local queues
    tickets_max: int = 3  # of a component
    tickets_user_max: int = 100
    redundancy_share_max: float = (
        0.1  # of a site's queue, by claims of jobs that wait elsewhere, too
    )
    held_share_max: float = 0.5  # of a site, by tickets that came up before the others
    ticket_plan_s: Seconds = 300.0  # between two plans, at most
    ticket_slack_s: Seconds = 300.0  # by which a ticket may be opened before the slowest part
    ticket_hold_min_s: Seconds = 600.0  # of a ticket that came up early: a sixth of the run ...
    ticket_hold_max_s: Seconds = 3600.0  # ... within these bounds
    # barrier
    start: str = "early"  # once all files and claims are there; or "jst", the paper's
    paths_limit_s: Seconds = 5.0  # for a component to try the TCP paths it needs
    blocked_max: int = 3  # attempts that end because a path was not open
    late_max_s: Seconds = 2.0
    lead_min_s: Seconds = 0.005
    lead_max_s: Seconds = 2.0
    lead_rounds: float = 1.0  # of the time that the answers to the Arm took, longer than a Release
    arm_wait_s: Seconds = 0.5  # after T, for answers to an Arm; at most a quarter of late_max_s
    arms_max: int = 20
    hold_lease_s: Seconds = 60.0
    run_lease_s: Seconds = 600.0
    kill_s: Seconds = 5.0
    pause_max_s: Seconds = 5.0
    clock_rate_error: float = 0.001  # rho
    # resize malleable jobs while they run (Buisson et al. 2007)
    resize_first: str = "waiting"  # jobs that wait take what is idle, and make others give way;
    # or "running": jobs that run grow first, and none gives way
    resize_step_s: Seconds = 10.0  # between two resizes of a job, at least
    give_way_s: Seconds = 60.0  # for a component that is asked to
    # run (SQ 4)
    progress_cycle_s: Seconds = 0.25  # between two reports of a component's progress
    # faults (KOALA 3.4)
    consecutive_errors_max: int = 3
    errors_counted: str = "jobs"  # of distinct jobs; or "all", the paper's: whatever their job
    probe_after_s: Seconds = 600.0  # inf: only an administrator resumes a site

    def __post_init__(self) -> None:
        for name, (low, high) in BOUNDS.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigError(f"{name} = {value} (expected values from {low} to {high})")
        for name, words in WORDS.items():
            if getattr(self, name) not in words:
                raise ConfigError(
                    f"{name} = {getattr(self, name)!r} (expected one of {', '.join(words)})"
                )
        if self.claim_fraction_min > self.claim_fraction:
            raise ConfigError(
                f"claim_fraction_min = {self.claim_fraction_min} (expected at most"
                f" claim_fraction = {self.claim_fraction})"
            )
        if self.ticket_hold_min_s > self.ticket_hold_max_s:
            raise ConfigError(
                f"ticket_hold_min_s = {self.ticket_hold_min_s:g} (expected at most"
                f" ticket_hold_max_s = {self.ticket_hold_max_s:g})"
            )
        promise_s = self.late_max_s + self.lead_min_s
        lease_s = self.hold_lease_s * 5 / 6  # what is left of one just before the next ping
        if promise_s >= lease_s:
            raise ConfigError(
                f"late_max_s + lead_min_s = {promise_s:g}: no starter could promise that (expected"
                f" less than {lease_s:g}, five sixths of hold_lease_s)"
            )
        if promise_s >= self.hold_s:
            raise ConfigError(
                f"hold_s = {self.hold_s:g}: no start could be agreed on in it (expected more than"
                f" late_max_s + lead_min_s = {promise_s:g})"
            )
        if self.run_lease_s < self.hold_lease_s:
            raise ConfigError(
                f"run_lease_s = {self.run_lease_s:g} (expected at least"
                f" hold_lease_s = {self.hold_lease_s:g})"
            )

    @property
    def fence_s(self) -> Seconds:
        """Seconds after the last answered ping until a released claim is certainly dead."""
        return self.run_lease_s * (1 + self.clock_rate_error) + self.kill_s + self.pause_max_s

    @property
    def hold_fence_s(self) -> Seconds:
        """The same time for a claim that was not released; then its processors are free."""
        return self.hold_lease_s * (1 + self.clock_rate_error) + self.kill_s + self.pause_max_s


BOUNDS: dict[str, tuple[float, float]] = {
    "scan_interval_s": (0.001, 86_400.0),
    "high_scans_per_low": (1, 1000),
    "placement_tries_max": (0, 1_000_000_000),
    "queue_jobs_max": (1, 10_000_000),
    "ageing_s": (0.0, FOREVER),
    "bandwidth_default_bps": (1.0, 1e15),
    "transfer_report_s": (0.1, 3600.0),
    "preferred_mips": (0.0, 1e15),
    "hint_deviation": (0.0, 1.0),
    "claim_fraction": (0.0, 1.0),
    "claim_fraction_step": (0.0, 1.0),
    "claim_fraction_min": (0.0, 1.0),
    "claim_threshold": (0.0, 1.0),
    "claiming_step_min_s": (0.001, 86_400.0),
    "claiming_tries_max": (0, 1_000_000_000),
    "deadline_fraction": (0.001, 1.0),
    "deadline_tries_max": (0, 1000),
    "wait_s": (0.0, FOREVER),
    "wait_graces": (0.0, 1e6),
    "claims_open_max": (0, 1_000_000_000),
    "hold_s": (0.1, 604_800.0),
    "preempt_rest_s": (0.0, FOREVER),
    "hold_budget_user_s": (0.0, FOREVER),
    "hold_budget_site_s": (0.0, FOREVER),
    "tickets_max": (1, 10),
    "tickets_user_max": (1, 1_000_000),
    "redundancy_share_max": (0.0, 1.0),
    "held_share_max": (0.0, 1.0),
    "ticket_plan_s": (0.1, 86_400.0),
    "ticket_slack_s": (0.0, 86_400.0),
    "ticket_hold_min_s": (0.1, 604_800.0),
    "ticket_hold_max_s": (0.1, 604_800.0),
    "paths_limit_s": (0.1, 600.0),
    "blocked_max": (1, 1_000_000),
    "late_max_s": (0.05, 600.0),
    "lead_min_s": (0.0, 60.0),
    "lead_max_s": (0.001, 60.0),
    "lead_rounds": (1.0, 10.0),
    "arm_wait_s": (0.0, 60.0),
    "arms_max": (1, 1000),
    "hold_lease_s": (0.2, FOREVER),
    "run_lease_s": (0.2, FOREVER),
    "kill_s": (0.0, 3600.0),
    "pause_max_s": (0.0, 3600.0),
    "clock_rate_error": (0.0, 0.1),
    "resize_step_s": (0.0, 86_400.0),
    "give_way_s": (0.1, 86_400.0),
    "progress_cycle_s": (0.05, 3600.0),
    "consecutive_errors_max": (1, 1_000_000),
    "probe_after_s": (0.0, FOREVER),
}
WORDS: dict[str, tuple[str, ...]] = {
    "scan": ("change", "interval"),
    "preempt": ("complete", "component", "none"),
    "start": ("early", "jst"),
    "at_deadline": ("fail", "kill"),
    "errors_counted": ("jobs", "all"),
    "resize_first": ("waiting", "running"),
}
NAMES = tuple(f.name for f in fields(Parameters))
SYMBOLS: dict[str, str] = {
    "queueing.S": "high_scans_per_low",
    "claiming.L": "claim_fraction",
    "claiming.T": "claim_threshold",
    "claiming.maxHold": "hold_s",
    "claiming.Lp": "deadline_fraction",
    "claiming.Mp": "deadline_tries_max",
    "claiming.X": "wait_s",
    "barrier.rho": "clock_rate_error",
}
"""The parameters that have a symbol, by slot and symbol, as in `claiming.L = 0.5`."""

SIMULATED_LEAD_S, SIMULATED_ARM_WAIT_S = 0.05, 0.0
"""Barrier of simulations, in which messages take no time and a lead is a constant."""


def simulated(parameters: Parameters) -> Parameters:
    """Return these parameters with the barrier of simulations where they have the live default."""
    live = Parameters()
    lead_s, wait_s = parameters.lead_min_s, parameters.arm_wait_s
    return replace(
        parameters,
        lead_min_s=SIMULATED_LEAD_S if lead_s == live.lead_min_s else lead_s,
        arm_wait_s=SIMULATED_ARM_WAIT_S if wait_s == live.arm_wait_s else wait_s,
    )


PAPER = Parameters(
    scan="interval",
    queue_jobs_max=100,
    ageing_s=FOREVER,
    claiming_tries_max=0,
    claims_open_max=0,
    preempt="component",
    errors_counted="all",
    start="jst",
    lead_min_s=SIMULATED_LEAD_S,
    arm_wait_s=SIMULATED_ARM_WAIT_S,
    probe_after_s=FOREVER,
)
"""KOALA's experiment (KOALA 4): fixed scan interval, 100 queued jobs, unlimited tries, no probes,
no ageing, each error of a site counted; a job starts at its JST, never before.
"""
