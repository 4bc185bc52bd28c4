"""Entries: sets of policies that are measured. Each differs from the reference in one slot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from koala.common.runtime.option_values import did_you_mean
from koala.errors import ConfigError, SpecError
from koala.lab.grids import POLICIES
from koala.policies import named, names_of

SLOTS = ("placement", "claiming", "queueing")
"""Slots that matter here: no job has a deadline, and programs do not report progress."""
REFERENCE = {slot: POLICIES[slot] for slot in SLOTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A set of policies: the reference, but for one slot."""

    slot: str
    policy: str

    @property
    def name(self) -> str:
        """Name in tables."""
        return "reference" if self.is_reference else f"{self.slot} {self.policy}"

    @property
    def is_reference(self) -> bool:
        """True if it is what all others are compared with."""
        return REFERENCE[self.slot] == self.policy

    @property
    def changes(self) -> dict[str, Any]:
        """Return the policies by slot."""
        return {**REFERENCE, self.slot: self.policy}


BASE = Entry(slot="placement", policy=REFERENCE["placement"])


def entry_of(text: str) -> Entry:
    """Read SLOT=NAME; without a slot it is a placement policy. Raises SpecError for an unknown
    slot, ConfigError for an unknown policy."""
    slot, _, policy = text.rpartition("=")
    slot = slot or "placement"
    if slot not in SLOTS:
        raise SpecError(
            f"--policy {text}: slot {slot} is unknown (expected one of"
            f" {', '.join(SLOTS)}{did_you_mean(slot, SLOTS)})"
        )
    try:
        named(slot, policy)
    except ConfigError as error:
        raise ConfigError(f"--policy {text}: {error}") from error
    return Entry(slot=slot, policy=policy)


def all_entries() -> tuple[Entry, ...]:
    """List the reference, and all of Koala's other policies."""
    return with_reference(
        Entry(slot=slot, policy=name) for slot in SLOTS for name in names_of(slot)
    )


def with_reference(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Put the reference first; each entry once."""
    others = dict.fromkeys(one for one in entries if not one.is_reference)
    return (BASE, *others)
