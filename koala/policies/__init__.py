"""The policies of the pipeline's slots, by name; other packages add theirs by entry points in the
group `koala.policies`.

A policy is a pure function (see koala.core.slots). An entry point's name is `slot.name`, for
instance `placement.my-policy`; it loads the function itself.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from koala.core.slots import Policies
from koala.errors import ConfigError
from koala.policies.claiming.incremental import incremental
from koala.policies.claiming.repeated import repeated
from koala.policies.placement.close_to_files import close_to_files
from koala.policies.placement.worst_fit import worst_fit
from koala.policies.queueing.koala import turn

GROUP = "koala.policies"
BUILT_IN: dict[str, dict[str, Callable[..., Any]]] = {
    "placement": {"CF": close_to_files, "WF": worst_fit},
    "claiming": {"ICP": incremental, "RPP": repeated},
    "deadlines": {"RPP": repeated},
    "queueing": {"koala": turn},
}


def named(slot: str, name: str) -> Callable[..., Any]:
    """The policy of a slot by its name. Raises ConfigError that lists the known names."""
    known = BUILT_IN.get(slot)
    if known is None:
        raise ConfigError(f"policies.{slot}: no such slot; there are {', '.join(BUILT_IN)}")
    if name in known:
        return known[name]
    others = {point.name: point for point in entry_points(group=GROUP)}
    if f"{slot}.{name}" in others:
        loaded: Callable[..., Any] = others[f"{slot}.{name}"].load()
        return loaded
    outside = [other.partition(".")[2] for other in others if other.startswith(f"{slot}.")]
    raise ConfigError(f"policies.{slot} = {name!r}: known are {', '.join([*known, *outside])}")


def chosen(
    *,
    placement: str = "CF",
    claiming: str = "ICP",
    deadlines: str = "RPP",
    queueing: str = "koala",
) -> Policies:
    """The policies with these names."""
    return Policies(
        place=named("placement", placement),
        claim=named("claiming", claiming),
        claim_timed=named("deadlines", deadlines),
        turn=named("queueing", queueing),
    )
