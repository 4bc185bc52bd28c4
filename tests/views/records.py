"""Records made of plain values, as the daemon's JSON has them."""

from __future__ import annotations

from typing import Any

import msgspec

from koala.client.answers import decode
from koala.views.records.base import R


def record_of(kind: type[R], values: Any) -> R:
    """Make a record of plain values, some of which may be records; what is missing has its
    default."""
    return decode(kind, msgspec.json.encode(values, enc_hook=float))
