"""Answers of the daemon as records."""

from __future__ import annotations

import threading
from functools import cache

import msgspec

from koala.errors import KoalaError
from koala.views.records.base import R, decoder

_making = threading.Lock()
"""Held while a decoder is made: msgspec looks into the types then, and two threads that do so at
once can crash the process."""


@cache
def _decoder(kind: type[R]) -> msgspec.json.Decoder[R]:
    with _making:
        return decoder(kind)


def decode(kind: type[R], text: str | bytes) -> R:
    """Decode JSON as a record. Raises KoalaError for JSON of another form."""
    try:
        record: R = _decoder(kind).decode(text)
    except msgspec.DecodeError as error:
        raise KoalaError(
            f"unexpected answer of the daemon (expected a {kind.__name__}): {error};"
            " compare the versions of daemon and client (`koala doctor`)"
        ) from error
    return record
