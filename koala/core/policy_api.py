"""Policy slots of the pipeline: the question and the answer of each.

A policy is a function from values to a value. Only the scheduler applies its answer, and records it
with the event (`answer_recorder`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn, TypeAlias

from koala.common.protocol.ordering import OrderPolicy
from koala.core.model.grid import (
    Assignment,
    Demand,
    GridView,
    Placement,
    PlacementRequest,
    Unplaceable,
)
from koala.core.model.progress_reports import Correction, ProgressQuestion
from koala.core.model.values import (
    FOREVER,
    Inputs,
    Instant,
    JobId,
    Priority,
    Seconds,
    SiteName,
    UserName,
)
from koala.core.model.visiting import Discipline

NO_SITE = SiteName("")
"""Site of a component with one site, in questions that leave it out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPart:
    """A member without a claim: `site` is its placement (None: none yet), `fixed` the site that
    its job requires. The job can start without an optional one.
    """

    component: int
    processors: int
    site: SiteName | None
    fixed: SiteName | None
    size_bytes: int
    file: Inputs | None = None
    is_optional: bool = False
    gpus: int = 0

    def fits(self, view: GridView, site: SiteName) -> bool:
        """Return True if it could start at a site now."""
        return view.has_room(site, processors=self.processors, gpus=self.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReclaimableSite:
    """A site where processors can be reclaimed: `idle` ones, even if other jobs wait for them, and
    those of `local` jobs that may be killed.
    """

    site: SiteName
    idle: int
    local: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A low-priority job that may be preempted, with its processors and GPUs at each site."""

    job: JobId
    start_at: Instant
    held: tuple[tuple[SiteName, int], ...]
    held_gpus: tuple[tuple[SiteName, int], ...] = ()

    def gpus_at(self, site: SiteName) -> int:
        """Return the GPUs that it holds at a site."""
        return next((gpus for name, gpus in self.held_gpus if name == site), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimQuestion:
    """Question of a claiming try (KOALA 3.3).

    - `held` of `components` are claimed already, at `held_at`; `pending` are to be claimed now.
    - `remaining_s` is the time to the JST.
    - `victims` come in descending order of their JST.
    - `preemptible` sites start a queued claim once victims are stopped.
    - `reclaimable` is empty unless local jobs may be killed for this try.
    - `is_distinct`: no two components may run at one site.
    """

    components: int
    held: int
    pending: tuple[PendingPart, ...]
    user: UserName
    priority: Priority
    remaining_s: Seconds
    threshold: float
    preempt: str
    held_at: tuple[SiteName, ...] = ()
    victims: tuple[Victim, ...] = ()
    preemptible: tuple[SiteName, ...] = ()
    reclaimable: tuple[ReclaimableSite, ...] = ()
    demand: Demand | None = None
    home: SiteName | None = None
    is_distinct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPlan:
    """Plan of a claiming try.

    - `fraction`: F, the share of components that are held or can start.
    - `claims`: components claimed at their sites.
    - `moves`: components claimed at new sites.
    - `preempting`: components claimed at their sites once `victims` are stopped.
    - `forced`: claims that may kill local jobs."""

    fraction: float
    claims: tuple[int, ...] = ()
    moves: tuple[Assignment, ...] = ()
    preempting: tuple[int, ...] = ()
    victims: tuple[JobId, ...] = ()
    forced: tuple[Assignment, ...] = ()


PlacementPolicy: TypeAlias = Callable[[PlacementRequest, GridView], Placement | Unplaceable]


def on_distinct_sites(place: PlacementPolicy) -> PlacementPolicy:
    """Make a policy that puts no two components of a job at one site: the given one is asked for
    one part at a time, those with a fixed site and large ones first, without the sites in use."""

    def place_apart(request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
        trial = view.copy()
        trial.close(request.beside)
        assignments: list[Assignment] = []
        for part in sorted(
            request.parts, key=lambda part: (part.site is None, -part.processors, part.component)
        ):
            beside = (*request.beside, *(assignment.site for assignment in assignments))
            answer = place(replace(request, parts=(part,), beside=beside), trial)
            if isinstance(answer, Unplaceable):
                others = f"; {len(beside)} have another component" if beside else ""
                return replace(answer, reason=f"{answer.reason}{others}")
            assignments += answer.assignments
            trial.book(answer.assignments[0])
            trial.close([answer.assignments[0].site])
        return Placement(assignments=tuple(sorted(assignments, key=lambda a: a.component)))

    return place_apart


ClaimingPolicy: TypeAlias = Callable[[ClaimQuestion, GridView, PlacementPolicy], ClaimPlan]


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketPart:
    """A component whose claims wait in the queue of a site; it comes once for each of its sites.

    - `held_s`: time that it has held its processors there; None: no ticket of it there has started.
    - `tickets` wait in the local queue, for `waited_s` the oldest of them, which is open or gated.
    - `start_s`: time until the oldest would start if it were eligible from now on; None: unknown.
      It is not `known` yet if the site may still tell it.
    - `files_s`: time until its input files are there.
    - `given_back_s`: time since the component held, and gave back, at any site; None: never.
    - `can_gate`: the site has a gate.
    - `books`: the site books processors. `begins_s`: time until its booking begins, less than 0 if
      it is late; None: it has none. `not_booked_s`: time until the instant for which it was refused
      one last; `moved_from_s`: until the begin of the booking that was moved last.
    - `is_optional`: the job may start without it.
    """

    component: int
    processors: int
    tickets: int
    waited_s: Seconds = 0.0
    held_s: Seconds | None = None
    start_s: Seconds | None = None
    files_s: Seconds = 0.0
    is_known: bool = True
    given_back_s: Seconds | None = None
    can_gate: bool = True
    books: bool = False
    begins_s: Seconds | None = None
    not_booked_s: Seconds | None = None
    moved_from_s: Seconds | None = None
    site: SiteName = NO_SITE
    is_optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketQuestion:
    """Question of a plan of tickets. The job runs for `run_s` at most, and may hold early
    processors for `hold_min_s` to `hold_max_s`. It starts when `needed` components hold, and all
    that are not optional; 0: all components."""

    parts: tuple[TicketPart, ...]
    run_s: Seconds
    tickets_max: int
    slack_s: Seconds
    hold_min_s: Seconds
    hold_max_s: Seconds
    needed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartPlan:
    """Plan of one component at one of its sites: the `tickets` that shall wait in the queue; the
    oldest `open` of them may start; whether it gives back what it holds there; the time until its
    booking there shall begin (None: it has none). Its `begins_s` keeps the booking as it is."""

    component: int
    tickets: int
    open: int
    gives_back: bool = False
    site: SiteName = NO_SITE
    begin_s: Seconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketPlan:
    """Plan of the tickets of a job. A ticket that starts holds for `hold_s` at most; the plan is
    made again after `again_s` (inf: at the usual time), and whenever a ticket starts or ends."""

    parts: tuple[PartPlan, ...]
    hold_s: Seconds
    again_s: Seconds = FOREVER


@dataclass(frozen=True, slots=True, kw_only=True)
class MalleableJob:
    """A running malleable job in a question about a site: it has `processors` in all, at least
    `least` of which it keeps, and at most `most`; `here` of them at the site. One component has
    `part_min` at least.
    """

    job: JobId
    started_at: Instant
    processors: int
    least: int
    most: int
    here: int = 0
    part_min: int = 1

    @property
    def room(self) -> int:
        """Processors by which it may grow."""
        return max(0, self.most - self.processors)

    @property
    def spare(self) -> int:
        """Processors that it can give back at the site."""
        return max(0, min(self.here, self.processors - self.least))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeQuestion:
    """Question of a resize: how running malleable jobs share the `processors` that are idle at a
    site, or who gives them back there, for jobs that wait (`wants_back`)."""

    site: SiteName
    processors: int
    jobs: tuple[MalleableJob, ...]
    wants_back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeShare:
    """Processors by which a job grows at the site, or gives back there."""

    job: JobId
    processors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizePlan:
    """Shares of the jobs that grow, or give back."""

    shares: tuple[ResizeShare, ...] = ()


ResizePolicy: TypeAlias = Callable[[ResizeQuestion], ResizePlan]
TicketPolicy: TypeAlias = Callable[[TicketQuestion], TicketPlan]
ProgressPolicy: TypeAlias = Callable[[ProgressQuestion], tuple[Correction, ...]]
TurnPolicy: TypeAlias = Callable[[int, int], Priority]
"""The queue that the n-th scan (from 0) visits, given S."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HighLowScans:
    """A queue discipline that scans a high and a low queue in turn (KOALA 3.1)."""

    name: str
    turn: TurnPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """A queue discipline that scans one queue in the order of its function."""

    name: str
    order: OrderPolicy


QueueingPolicy: TypeAlias = HighLowScans | Discipline | Ordering
"""Scans of whole queues, rounds over the heads of several queues, or scans of one in an order."""


def _unasked(*_: object) -> NoReturn:
    message = "a replay asked a policy"
    raise AssertionError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The policies in force."""

    place: PlacementPolicy
    claim: ClaimingPolicy
    claim_timed: ClaimingPolicy  # of jobs with a deadline
    queueing: QueueingPolicy
    resize: ResizePolicy
    tickets: TicketPolicy | None = None  # None: no job waits in a local queue
    progress: Mapping[str, ProgressPolicy] = field(default_factory=dict)
    """Policies by the name, in lower case, that a job gives; other jobs run freely."""
    progress_default: str = "free"  # of jobs that give none
    split: PlacementPolicy = _unasked  # of flexible jobs


NO_POLICIES = Policies(
    place=_unasked,
    claim=_unasked,
    claim_timed=_unasked,
    queueing=HighLowScans(name="none", turn=_unasked),
    resize=_unasked,
)
"""The policies of a replay, which has all answers and must not ask."""
