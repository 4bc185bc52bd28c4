"""Facts of a site as the core has them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from koala.common.protocol.messages import Facts
from koala.core.model.grid import MIPS_DEFAULT, SiteFacts


def facts_of(facts: Facts) -> SiteFacts:
    """Return the facts of a site on which the core decides."""
    known = {field.name for field in fields(SiteFacts)}
    reported = {
        field.name: getattr(facts, field.name) for field in fields(facts) if field.name in known
    }
    unknown: dict[str, Any] = {
        **dict.fromkeys(("owner", "slots", "hold_max_s", "tickets_max", "held_share_max")),
        "mips": MIPS_DEFAULT,
    }
    return SiteFacts(
        **{name: value or unknown.get(name, value) for name, value in reported.items()}
    )
