"""Registry of policies by slot and name; other packages add theirs by entry points in the group
`koala.policies`.

A policy is a pure function (see koala.core.policy_api). It is named by the name of a built-in one,
by that of an entry point (`slot.name`, for instance `placement.my-policy`), or as
`module:function`. Every command and configuration resolves names here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import entry_points
from types import FunctionType
from typing import Any

from koala.core.model.visiting import Discipline
from koala.core.policy_api import Ordering, Policies, ProgressPolicy, QueueingPolicy, Scans
from koala.errors import ConfigError
from koala.policies.claiming.incremental import incremental
from koala.policies.claiming.repeated import repeated
from koala.policies.ordering import ORDERS
from koala.policies.placement.close_to_files import close_to_files
from koala.policies.placement.hints import no_network, prefer_local, service
from koala.policies.placement.worst_fit import worst_fit, worst_fit_distinct
from koala.policies.progress.free import free
from koala.policies.progress.synchronous import synchronous, synchronous_as_printed
from koala.policies.queueing.koala import turn
from koala.policies.queueing.multiqueue import DISCIPLINES
from koala.runtime.own_functions import load_function

GROUP = "koala.policies"
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
LOCAL = "local"
"""Slot of the scheduler of an emulated or simulated site, which is no step of the pipeline."""
LOCAL_DISCIPLINES = ("fcfs", "easy", "conservative")
_SLOTS: dict[str, dict[str, Any]] = {
    **BUILT_IN,
    LOCAL: {**dict.fromkeys(LOCAL_DISCIPLINES), **ORDERS},
}


def names_of(slot: str) -> tuple[str, ...]:
    """Names of the built-in policies of a slot."""
    return tuple(_SLOTS[slot])


def is_foreign(slot: str, name: str) -> bool:
    """Return True if another package has a policy of this name."""
    return any(point.name == f"{slot}.{name}" for point in entry_points(group=GROUP))


def named(slot: str, name: str) -> Any:  # noqa: ANN401 - a function, or a Discipline
    """Look up the policy of a slot by its name. Raises ConfigError with the known names."""
    known = _SLOTS.get(slot)
    if known is None:
        raise ConfigError(f"policies.{slot}: no such slot; there are {', '.join(_SLOTS)}")
    if name in known:
        return known[name]
    if ":" in name:
        return _load(slot, name, name, lambda: load_function(name))
    others = {point.name: point for point in entry_points(group=GROUP)}
    point = others.get(f"{slot}.{name}")
    if point is not None:
        return _load(slot, point.name, point.value, point.load)
    outside = [other.partition(".")[2] for other in others if other.startswith(f"{slot}.")]
    names = ", ".join([*known, *outside])
    raise ConfigError(
        f"policies.{slot} = {name!r}: known are {names}; allowed is also module:function"
    )


def _load(slot: str, name: str, place: str, load: Callable[[], Any]) -> Any:  # noqa: ANN401
    """Load a function from its place in a package or a module of the user. Raises ConfigError."""
    try:
        policy = load()
    except Exception as error:
        text = f"{place} cannot be loaded: {type(error).__name__}: {error}"
        raise ConfigError(f"policies.{slot} = {name!r}: {text}") from error
    if not callable(policy) and not (isinstance(policy, Discipline) and slot == "queueing"):
        raise ConfigError(f"policies.{slot} = {name!r}: {place} is no function")
    count = _arguments(policy)
    allowed = ARGUMENTS[slot]
    if count is not None and count not in allowed:
        expected = " or ".join(map(str, allowed))
        text = f"{place} takes {count} arguments: allowed are {expected}"
        raise ConfigError(f"policies.{slot} = {name!r}: {text}")
    return policy


ARGUMENTS = {
    "placement": (2,),
    "claiming": (3,),
    "deadlines": (3,),
    "progress": (1,),
    "queueing": (1, 2),
    LOCAL: (1,),
}
"""Numbers of arguments of a policy by slot. In queueing, a function of one job orders all jobs; one
of two numbers chooses between the high and the low queue."""


def _arguments(policy: object) -> int | None:
    """Number of arguments of a function; None for any other callable, or for a variable number."""
    if isinstance(policy, FunctionType):
        code = policy.__code__
        is_variable = code.co_flags & _VARIABLE or policy.__defaults__ or policy.__kwdefaults__
        return None if is_variable else code.co_argcount
    return None


_VARIABLE = 0x04 | 0x08
"""Flags of the code of a function with *args or **kwargs."""


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
    for point in entry_points(group=GROUP):
        slot, _, name = point.name.partition(".")
        if slot == "progress" and name.lower() not in known:
            with suppress(ConfigError):  # jobs that name it are refused; others need it not
                known[name.lower()] = named(slot, name)
    if default.lower() not in known:
        known[default.lower()] = named("progress", default)
    return known


def _queueing(name: str) -> QueueingPolicy:
    """Look up a discipline: a record for several queues; a function of one job that orders them; or
    a function of two numbers for scans of two queues."""
    policy = named("queueing", name)
    if isinstance(policy, Discipline):
        return policy
    if _arguments(policy) == 1:
        return Ordering(name=name, order=policy)
    return Scans(name=name, turn=policy)
