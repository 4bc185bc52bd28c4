"""Registry of policies by slot and name; other packages add theirs by entry points in the group
`koala.policies`.

A policy is a pure function (see koala.core.policy_api). It is named by the name of a built-in one,
by that of an entry point (`slot.name`, for instance `placement.my-policy`), or as
`module:function`. Every command and configuration resolves names here.

slots      the record of each slot, from which all else is read
answers    reads the answers of policies of other packages
changes    changes of policies and parameters as KEY=VALUE
conformance   checks a policy of another package before it is used
placement, claiming, queueing, progress, tickets, resizing
           the built-in policies
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from koala.common.runtime.foreign.guards import SIMULATED, Conduct
from koala.common.runtime.option_values import did_you_mean
from koala.common.runtime.plugins import find_function, outside_names
from koala.core.policy_api import Policies
from koala.errors import ConfigError
from koala.policies.slots import PROGRESS, SLOTS, Slot, policy_label, splitting

BUILT_IN: dict[str, Mapping[str, Any]] = {slot.name: slot.built_in for slot in SLOTS.values()}
DEFAULTS: dict[str, str] = {slot.name: slot.default for slot in SLOTS.values()}
"""Name of the policy of each slot that names none."""


def names_of(slot: str) -> tuple[str, ...]:
    """Names of the built-in policies of a slot."""
    return tuple(BUILT_IN[slot])


def named(slot: str, name: str, conduct: Conduct = SIMULATED) -> Any:  # noqa: ANN401 - a function, or a Discipline
    """Look up the policy of a slot by its name; one of another package is guarded. Raises
    ConfigError with the known names."""
    return slot_named(slot).guarded(unguarded(slot, name), name, conduct)


def slot_named(name: str) -> Slot:
    """Look up a slot. Raises ConfigError."""
    if name not in SLOTS:
        hint = did_you_mean(name, SLOTS)
        raise ConfigError(f"no slot {name} (expected one of {', '.join(SLOTS)}{hint})")
    return SLOTS[name]


def unguarded(slot: str, name: str) -> Any:  # noqa: ANN401
    """Look up a policy as its package has it, to be checked and not used. Raises ConfigError."""
    known = slot_named(slot)
    return find_function(
        slot,
        name,
        known.built_in,
        arguments=known.arities,
        other=known.record,
        elsewhere={slot_name: names for slot_name, names in BUILT_IN.items() if slot_name != slot},
    )


def chosen(conduct: Conduct = SIMULATED, /, **policies: Any) -> Policies:  # noqa: ANN401
    """Make Policies from names or functions by slot; other slots have their default. Raises
    ConfigError."""
    names = {**DEFAULTS, **{slot_named(name).name: choice for name, choice in policies.items()}}
    fields: dict[str, Any] = {}
    for name, slot in SLOTS.items():
        if slot is not PROGRESS:
            text, policy = _resolved(slot, names[name], conduct)
            fields[slot.attribute] = slot.in_force(text, policy)
    fields["split"] = splitting(fields["place"])
    offered = _offered_progress(conduct)
    default = names["progress"]
    if not isinstance(default, str) or default.lower() not in offered:
        default, policy = _resolved(PROGRESS, default, conduct)
        offered[default.lower()] = policy
    return Policies(progress=offered, progress_default=default.lower(), **fields)


def _resolved(slot: Slot, policy: Any, conduct: Conduct) -> tuple[str, Any]:  # noqa: ANN401
    """Return the name of a policy, and the policy."""
    if isinstance(policy, str):
        return policy, named(slot.name, policy, conduct)
    label = policy_label(policy)
    return label, slot.guarded(policy, label, conduct)


def _offered_progress(conduct: Conduct) -> dict[str, Any]:
    """Look up the progress policies that jobs may name, by lower-case name."""
    known = {name.lower(): policy for name, policy in PROGRESS.built_in.items()}
    for name in outside_names("progress"):
        if name.lower() not in known:
            with suppress(ConfigError):  # jobs that name it are refused; others need it not
                known[name.lower()] = named("progress", name, conduct)
    return known
