"""Registry of policies by slot and name; other packages add theirs by entry points in the group
`koala.policies`.

A policy is a pure function (see koala.core.policy_api). It is named by the name of a built-in one,
by that of an entry point (`slot.name`, for instance `placement.my-policy`), or as
`module:function`. Every command and configuration resolves names here. Each slot has a folder;
`answer_checks` finds wrong answers of policies that are not built in.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from koala.core.model.visiting import Discipline
from koala.core.policy_api import HighLowScans, Ordering, Policies, ProgressPolicy, QueueingPolicy
from koala.errors import ConfigError
from koala.policies.claiming.incremental import incremental
from koala.policies.claiming.repeated import repeated
from koala.policies.placement.close_to_files import close_to_files
from koala.policies.placement.hints import no_network, prefer_local, service
from koala.policies.placement.worst_fit import worst_fit, worst_fit_distinct
from koala.policies.progress.free import free
from koala.policies.progress.synchronous import synchronous, synchronous_as_printed
from koala.policies.queueing.high_low import turn
from koala.policies.queueing.multiqueue import DISCIPLINES
from koala.protocol.ordering import ORDERS
from koala.runtime.plugins import argument_count, find_function, outside_names

DEFAULT_PLACEMENT = "CF"
BUILT_IN: dict[str, dict[str, Any]] = {
    "placement": {
        "CF": close_to_files,
        "WF": worst_fit,
        "WF-distinct": worst_fit_distinct,
        "NoNetwork": no_network,
        "PreferLocal": prefer_local,
        "Service": service,
    },
    "claiming": {"ICP": incremental, "RPP": repeated},
    "deadlines": {"RPP": repeated},
    "progress": {"free": free, "SQ": synchronous, "SQ-printed": synchronous_as_printed},
    "queueing": {"koala": turn, **DISCIPLINES, **ORDERS},
}
ARGUMENTS = {
    "placement": (2,),
    "claiming": (3,),
    "deadlines": (3,),
    "progress": (1,),
    "queueing": (1, 2),
}
"""Numbers of arguments of a policy by slot. In queueing, a function of one job orders all jobs; one
of two numbers chooses between the high and the low queue."""


def names_of(slot: str) -> tuple[str, ...]:
    """Names of the built-in policies of a slot."""
    return tuple(BUILT_IN[slot])


def named(slot: str, name: str) -> Any:  # noqa: ANN401 - a function, or a Discipline
    """Look up the policy of a slot by its name. Raises ConfigError with the known names."""
    known = BUILT_IN.get(slot)
    if known is None:
        raise ConfigError(f"policies.{slot}: no such slot; there are {', '.join(BUILT_IN)}")
    other = Discipline if slot == "queueing" else None
    return find_function(slot, name, known, arguments=ARGUMENTS[slot], other=other)


def chosen(
    *,
    placement: str = DEFAULT_PLACEMENT,
    claiming: str = "ICP",
    deadlines: str = "RPP",
    queueing: str = "koala",
    progress: str = "free",
) -> Policies:
    """Make Policies from these names."""
    return Policies(
        place=named("placement", placement),
        claim=named("claiming", claiming),
        claim_timed=named("deadlines", deadlines),
        queueing=_queueing(queueing),
        progress=_progress(progress),
        progress_default=progress.lower(),
    )


def _progress(default: str) -> dict[str, ProgressPolicy]:
    """Progress policies that jobs may name, by lower-case name; checks that the default exists."""
    known = {name.lower(): policy for name, policy in BUILT_IN["progress"].items()}
    for name in outside_names("progress"):
        if name.lower() not in known:
            with suppress(ConfigError):  # jobs that name it are refused; others need it not
                known[name.lower()] = named("progress", name)
    if default.lower() not in known:
        known[default.lower()] = named("progress", default)
    return known


def _queueing(name: str) -> QueueingPolicy:
    """Look up a discipline: a record for several queues; a function of one job that orders them; or
    a function of two numbers for scans of two queues."""
    policy = named("queueing", name)
    if isinstance(policy, Discipline):
        return policy
    if argument_count(policy) == 1:
        return Ordering(name=name, order=policy)
    return HighLowScans(name=name, turn=policy)
