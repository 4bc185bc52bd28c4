"""Slots of policies, one record each: what a slot decides, asks and is answered, its built-in
policies, and what replaces a policy of another package that misbehaves.

All else reads these records: names and commands, the daemon, simulations, the laboratory, the
guards, the conformance check and the tables of docs/development/add-a-policy.md. A policy of
another package is used only as `Slot.guarded` makes it, so there is no slot without a guard.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Sized
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from koala.common.protocol.ordering import ORDERS, QueuedJob, in_turn, plain_key
from koala.common.runtime.foreign.guards import Conduct, Form, Guarded, PolicyGuard
from koala.common.runtime.plugins import argument_count
from koala.core.model.grid import Assignment, GridView, Placement, PlacementRequest, Unplaceable
from koala.core.model.progress_reports import Correction, ProgressQuestion
from koala.core.model.visiting import Discipline, Keys, LocalJobs
from koala.core.policy_api import (
    ClaimQuestion,
    HighLowScans,
    Ordering,
    PlacementPolicy,
    Policies,
    ResizeQuestion,
    TicketPlan,
    TicketQuestion,
)
from koala.errors import ConfigError
from koala.policies.answers import (
    read_corrections,
    read_order,
    read_permission,
    read_placement,
    read_plan,
    read_resize_plan,
    read_ticket_plan,
    read_turn,
)
from koala.policies.claiming.incremental import incremental
from koala.policies.claiming.repeated import repeated
from koala.policies.placement.close_to_files import close_to_files
from koala.policies.placement.cluster_minimization import cm, fcm
from koala.policies.placement.communication import communication
from koala.policies.placement.hints import no_network, prefer_local, service
from koala.policies.placement.worst_fit import worst_fit, worst_fit_distinct
from koala.policies.progress.free import free, restored
from koala.policies.progress.synchronous import synchronous, synchronous_as_printed
from koala.policies.queueing.high_low import turn
from koala.policies.queueing.multiqueue import DISCIPLINES, local_first
from koala.policies.resizing.managers import equi_grow_and_shrink, favour_previously_started
from koala.policies.tickets.booking import book
from koala.policies.tickets.queues import dodge, spare, turns


def _itself(_name: str, policy: Any) -> Any:  # noqa: ANN401
    return policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A slot of the pipeline.

    - `decides`: what it is for.
    - `attribute`: its field of `Policies`.
    - `built_in`: Koala's policies by name; `default` is one of them.
    - `forms`: forms of a policy that is a function, by the number of its arguments.
    - `record`: type of a policy that is a record of functions, with the form of each.
    - `in_force`: makes the value of that field of the slot's name and policy.
    """

    name: str
    decides: str
    attribute: str
    built_in: Mapping[str, Any]
    default: str
    forms: Mapping[int, Form]
    record: type | None = None
    record_forms: Mapping[str, Form] = field(default_factory=dict)
    in_force: Callable[[str, Any], Any] = _itself

    @property
    def arities(self) -> tuple[int, ...]:
        """Numbers of arguments that a function of this slot can take."""
        return tuple(self.forms)

    def form_of(self, policy: object) -> Form:
        """Return the form of a function; the one with most arguments if their number is unknown.
        Raises ConfigError."""
        count = argument_count(policy)
        if not callable(policy) or (count is not None and count not in self.forms):
            expected = " or ".join(map(str, self.forms))
            raise ConfigError(
                f"{self.name} = {policy_label(policy)} (expected a function of {expected}"
                " arguments, or the name of a policy)"
            )
        return self.forms[max(self.forms) if count is None else count]

    def is_built_in(self, policy: object) -> bool:
        """Return True for one of Koala's policies."""
        return any(policy is known for known in self.built_in.values())

    def guarded(self, policy: Any, name: str, conduct: Conduct) -> Any:  # noqa: ANN401
        """Return a policy that can do no harm: a built-in one as it is, one of another package with
        the fallback of its form. Raises ConfigError if it is none of this slot."""
        if self.is_built_in(policy):
            return policy
        guard = PolicyGuard(slot=self.name, name=name, conduct=conduct)
        if self.record is not None and isinstance(policy, self.record):
            return _guarded_discipline(policy, self.record_forms, guard)
        return Guarded(policy, self.form_of(policy), guard)


def policy_label(policy: object) -> str:
    """Return a short name of a policy for people."""
    name = getattr(policy, "__name__", None)
    return name if isinstance(name, str) else type(policy).__name__


# --- placement ---


def _pose_placement(request: PlacementRequest, view: GridView) -> Any:  # noqa: ANN401
    def read(answer: object) -> Placement | Unplaceable:
        return read_placement(answer, request, view)

    demand = None if request.demand is None else replace(request.demand)
    return (replace(request, demand=demand), view.detached()), read


def _close_or_split(request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
    return (close_to_files if request.split is None else fcm)(request, view)


def splitting(place: PlacementPolicy) -> PlacementPolicy:
    """Return the policy that splits flexible jobs: this one, if it says so by an attribute
    `splits`, else FCM."""
    own = place.function if isinstance(place, Guarded) else place
    return place if getattr(own, "splits", False) else fcm


PLACEMENT = Slot(
    name="placement",
    decides="the sites of a job's components",
    attribute="place",
    built_in={
        "CF": close_to_files,
        "WF": worst_fit,
        "WF-distinct": worst_fit_distinct,
        "CM": cm,
        "FCM": fcm,
        "communication": communication,
        "NoNetwork": no_network,
        "PreferLocal": prefer_local,
        "Service": service,
    },
    default="CF",
    forms={
        2: Form(
            arguments=("PlacementRequest", "GridView"),
            answer="Placement or Unplaceable",
            pose=_pose_placement,
            fallback=_close_or_split,
            by="CF",
        )
    },
)


# --- claiming ---


def _pose_claim(question: ClaimQuestion, view: GridView, place: PlacementPolicy) -> Any:  # noqa: ANN401
    offers: set[Assignment] = set()

    def offer(request: PlacementRequest, trial: GridView) -> Placement | Unplaceable:
        if not isinstance(request, PlacementRequest) or not isinstance(trial, GridView):
            raise TypeError(
                "place was called with other arguments (expected a PlacementRequest and a GridView)"
            )
        answer = place(request, trial)
        if isinstance(answer, Placement):
            offers.update(answer.assignments)
        return answer

    return (
        (deepcopy(question), view.detached(), offer),
        partial(read_plan, question=question, view=view, offers=offers),
    )


def _claim_form(fallback: Callable[..., Any], by: str) -> Form:
    return Form(
        arguments=("ClaimQuestion", "GridView", "the placement policy"),
        answer="ClaimPlan",
        pose=_pose_claim,
        fallback=fallback,
        by=by,
    )


CLAIMING = Slot(
    name="claiming",
    decides="the components of a placed job that are claimed in a try, moved, or preempted for",
    attribute="claim",
    built_in={"ICP": incremental, "RPP": repeated},
    default="ICP",
    forms={3: _claim_form(incremental, "ICP")},
)
DEADLINES = Slot(
    name="deadlines",
    decides="the same for a job with a deadline",
    attribute="claim_timed",
    built_in={"RPP": repeated},
    default="RPP",
    forms={3: _claim_form(repeated, "RPP")},
)


# --- tickets ---


def _pose_tickets(question: TicketQuestion) -> Any:  # noqa: ANN401
    return (question,), partial(read_ticket_plan, question=question)


def no_tickets(_question: TicketQuestion) -> TicketPlan:
    """Let no job wait in a local queue; it waits in Koala's until processors are idle."""
    message = "no job has tickets"
    raise AssertionError(message)


def _tickets(_name: str, policy: Any) -> Any:  # noqa: ANN401
    return None if policy is no_tickets else policy


TICKETS = Slot(
    name="tickets",
    decides="the claims that wait in the queues of busy sites, and which of them may start",
    attribute="tickets",
    built_in={
        "none": no_tickets,
        "book": book,
        "dodge": dodge,
        "turns": turns,
        "spare": spare,
    },
    default="none",
    forms={
        1: Form(
            arguments=("TicketQuestion",),
            answer="TicketPlan",
            pose=_pose_tickets,
            fallback=dodge,
            by="dodge",
        )
    },
    in_force=_tickets,
)


# --- queueing ---


def _pose_order(job: QueuedJob) -> Any:  # noqa: ANN401
    return (replace(job),), plain_key


def _pose_turn(scans: int, high_scans_per_low: int) -> Any:  # noqa: ANN401
    return (scans, high_scans_per_low), read_turn


def _pose_queue_order(
    local: Keys, common: Keys, released: Sequence[Any], disabled: Keys, draw: float
) -> Any:  # noqa: ANN401
    question = (tuple(local), tuple(common), tuple(released), tuple(disabled))
    read = partial(read_order, queues=(*local, *common), released=question[2])
    return (*question, draw), read


def _pose_permission(queue: Sized, common: Sized, local: Collection[Sized]) -> Any:  # noqa: ANN401
    """Give the lengths of the queues alone: the queues themselves are the core's."""
    global_length = range(len(common))
    lengths = [(q, range(len(q))) for q in local]
    own = next(
        (length for q, length in ((common, global_length), *lengths) if q is queue),
        range(len(queue)),
    )
    return (own, global_length, tuple(length for _, length in lengths)), read_permission


def _always(_queue: Sized, _common: Sized, _local: Collection[Sized]) -> bool:
    return True


_BY_DISCIPLINE = "local queues first, all permitted"


def _guarded_discipline(policy: Any, forms: Mapping[str, Form], guard: PolicyGuard) -> Discipline:  # noqa: ANN401
    """Make a discipline of plain values, whose functions are guarded together."""
    if type(policy) is not Discipline:
        raise ConfigError(
            f"{guard.slot} = {guard.name} is a {type(policy).__name__} (expected Discipline itself)"
        )
    name, local_jobs, rule = policy.name, policy.local_jobs, policy.rule
    for what, is_right, allowed in (
        ("name", type(name) is str and name.strip(), "a text"),
        ("local_jobs", isinstance(local_jobs, LocalJobs), "a LocalJobs"),
        ("rule", type(rule) is str, "a text"),
    ):
        if not is_right:
            kind = type(getattr(policy, what)).__name__
            raise ConfigError(f"{guard.slot} = {guard.name}: {what} is {kind} (expected {allowed})")
    functions = {}
    for what, form in forms.items():
        function = getattr(policy, what)
        if function is None and what == "permits":
            continue
        if not callable(function):
            raise ConfigError(f"{guard.slot} = {guard.name}: {what} is not a function")
        functions[what] = Guarded(function, form, guard)
    return Discipline(name=name, local_jobs=local_jobs, rule=rule, **functions)


def _queueing(name: str, policy: Any) -> Any:  # noqa: ANN401
    if isinstance(policy, Discipline):
        return policy
    form = policy.form if isinstance(policy, Guarded) else QUEUEING.form_of(policy)
    if form is ORDER_FORM:
        return Ordering(name=name, order=policy)
    return HighLowScans(name=name, turn=policy)


ORDER_FORM = Form(
    arguments=("QueuedJob",),
    answer="sort key: a number, or a tuple of numbers",
    pose=_pose_order,
    fallback=in_turn,
    by="the order of submission",
)
QUEUEING = Slot(
    name="queueing",
    decides="the order in which waiting jobs are tried",
    attribute="queueing",
    built_in={"koala": turn, **DISCIPLINES, **ORDERS},
    default="koala",
    forms={
        1: ORDER_FORM,
        2: Form(
            arguments=("number of the scan", "S"),
            answer="Priority",
            pose=_pose_turn,
            fallback=turn,
            by="koala",
        ),
    },
    record=Discipline,
    record_forms={
        "order": Form(
            arguments=("local queues", "global queue", "released sites", "disabled queues", "draw"),
            answer="all queues in order",
            pose=_pose_queue_order,
            fallback=local_first,
            by=_BY_DISCIPLINE,
        ),
        "permits": Form(
            arguments=("queue", "global queue", "local queues"),
            answer="True or False",
            pose=_pose_permission,
            fallback=_always,
            by=_BY_DISCIPLINE,
        ),
    },
    in_force=_queueing,
)


# --- resizing ---


def _pose_resize(question: ResizeQuestion) -> Any:  # noqa: ANN401
    return (question,), partial(read_resize_plan, question=question)


RESIZING = Slot(
    name="resizing",
    decides="the running malleable jobs that grow into idle processors of a site, or give way",
    attribute="resize",
    built_in={"FPSMA": favour_previously_started, "EGS": equi_grow_and_shrink},
    default="FPSMA",
    forms={
        1: Form(
            arguments=("ResizeQuestion",),
            answer="ResizePlan",
            pose=_pose_resize,
            fallback=favour_previously_started,
            by="FPSMA",
        )
    },
)


# --- progress ---


def _pose_progress(question: ProgressQuestion) -> Any:  # noqa: ANN401
    def read(answer: object) -> tuple[Correction, ...]:
        return read_corrections(answer, question)

    return (replace(question),), read


PROGRESS = Slot(
    name="progress",
    decides="the corrections of a running job's components that drift apart",
    attribute="progress",
    built_in={"free": free, "SQ": synchronous, "SQ-printed": synchronous_as_printed},
    default="free",
    forms={
        1: Form(
            arguments=("ProgressQuestion",),
            answer="tuple of Correction",
            pose=_pose_progress,
            fallback=restored,
            by="free",
        )
    },
)

SLOTS: dict[str, Slot] = {
    slot.name: slot
    for slot in (PLACEMENT, CLAIMING, DEADLINES, TICKETS, RESIZING, PROGRESS, QUEUEING)
}
"""Every slot by its name."""


def guards_of(policies: Policies) -> list[PolicyGuard]:
    """Return the guards of the policies of other packages that are in force."""
    values: list[object] = []
    for slot in SLOTS.values():
        value = getattr(policies, slot.attribute)
        match value:
            case Mapping():
                values += value.values()
            case Discipline():
                values += [value.order, value.permits]
            case Ordering():
                values.append(value.order)
            case HighLowScans():
                values.append(value.turn)
            case _:
                values.append(value)
    return list(dict.fromkeys(policy.guard for policy in values if isinstance(policy, Guarded)))


def replaced_policies(policies: Policies) -> dict[str, str]:
    """Return the policies that were replaced, by slot and name, with the reason."""
    return {
        f"{guard.slot}.{guard.name}": guard.trouble
        for guard in guards_of(policies)
        if guard.trouble
    }
