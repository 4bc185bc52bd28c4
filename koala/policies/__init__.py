"""Registry of policies by slot and name; other packages add theirs by entry points in the group
`koala.policies`.

A policy is a pure function (see koala.core.policy_api). An entry point's name is `slot.name`, for
instance `placement.my-policy`; it loads the function itself.
"""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from koala.core.model.visiting import Discipline
from koala.core.policy_api import Policies, ProgressPolicy, QueueingPolicy, Scans
from koala.errors import ConfigError
from koala.policies.claiming.incremental import incremental
from koala.policies.claiming.repeated import repeated
from koala.policies.placement.close_to_files import close_to_files
from koala.policies.placement.hints import no_network, prefer_local, service
from koala.policies.placement.worst_fit import worst_fit, worst_fit_distinct
from koala.policies.progress.free import free
from koala.policies.progress.synchronous import synchronous, synchronous_as_printed
from koala.policies.queueing.koala import turn
from koala.policies.queueing.multiqueue import DISCIPLINES

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
    "queueing": {"koala": turn, **DISCIPLINES},
}


def named(slot: str, name: str) -> Any:  # noqa: ANN401 - a function, or a Discipline
    """Look up the policy of a slot by its name. Raises ConfigError with the known names."""
    known = BUILT_IN.get(slot)
    if known is None:
        raise ConfigError(f"policies.{slot}: no such slot; there are {', '.join(BUILT_IN)}")
    if name in known:
        return known[name]
    others = {point.name: point for point in entry_points(group=GROUP)}
    if f"{slot}.{name}" in others:
        return _load(slot, others[f"{slot}.{name}"])
    outside = [other.partition(".")[2] for other in others if other.startswith(f"{slot}.")]
    raise ConfigError(f"policies.{slot} = {name!r}: known are {', '.join([*known, *outside])}")


def _load(slot: str, point: EntryPoint) -> Any:  # noqa: ANN401 - whatever the package has there
    try:
        policy = point.load()
    except Exception as error:
        text = f"{point.value} cannot be loaded: {type(error).__name__}: {error}"
        raise ConfigError(f"policies.{slot} = {point.name!r}: {text}") from error
    if not callable(policy) and not isinstance(policy, Discipline):
        raise ConfigError(f"policies.{slot} = {point.name!r}: {point.value} is no function")
    return policy


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
        named("progress", default)  # raises ConfigError with the known names
    return known


def _queueing(name: str) -> QueueingPolicy:
    """Look up a discipline: a record for several queues; a function for scans of two queues."""
    policy = named("queueing", name)
    return policy if isinstance(policy, Discipline) else Scans(name=name, turn=policy)
