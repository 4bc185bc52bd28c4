"""Settings of the relay process, as the daemon sends them to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from koala.common.files.uploads import LOG_BYTES_MAX
from koala.common.metrics.settings import MetricsSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayUsage:
    """Readers, sources that wait for theirs and stores under way; the bytes moved since the start,
    by direction; and the free space of the spool."""

    readers: int
    sources: int
    stores: int
    moved_bytes: Mapping[str, int]
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """Settings of the relay process.

    - `listen` is host:port, port 0 for any; `spool` a folder; `secret` the tokens' key, in hex.
    - `identity` is the file of the relay's certificate. With it clients must show a certificate,
      too; empty means plain text.
    - `bytes_per_s` bounds all copies together (None: no limit).
    - A reader waits `offer_wait_s` for its source. A peer that moves no byte for `stalled_s` is
      cut.
    - `metrics` is where its metrics are served, if they are.
    """

    secret: str = field(repr=False)
    identity: str = ""
    listen: str = "127.0.0.1:0"
    spool: str
    bytes_per_s: float | None = None
    offer_wait_s: float = 20.0
    stalled_s: float = 60.0
    offers_max: int = 4000
    readers_max: int = 32
    stores_max: int = 32
    connections_max: int = 4000
    output_bytes_max: int = 2**40
    log_bytes_max: int = LOG_BYTES_MAX
    free_bytes_min: int = 0
    """Free space that a large file must leave: the journal may be on the same disk."""
    kept_bytes: int = 0
    """Free space that every file must leave: the space of the ballast is for the journal alone."""
    metrics: MetricsSettings | None = None
