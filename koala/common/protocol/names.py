"""Names on the link: one pattern for both ends."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NewType

ClaimId = NewType("ClaimId", str)
"""job/attempt/component/n, unique forever."""
SiteName = NewType("SiteName", str)

CLAIM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}(/[0-9]{1,9}){3}")
"""job/attempt/component/n."""
TRANSFER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}/[0-9]{1,9}/t[0-9]{1,9}")
_SPOOLED = re.compile(r"(?P<claim>[^/]+(/[^/]+){3})/(?P<kind>output|log)/(?P<name>.*)", re.DOTALL)
_UPLOAD = re.compile(r"[0-9a-f]{64}/0/t[0-9]{1,9}")
SITE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
RESIZE_SIGNAL = re.compile("USR1|USR2")


SILENT, AWAY = "the batch system gives no answer", "it cannot be reached"
"""Words in the trouble of a site at which nothing can be done now."""


def is_claim_id(text: str) -> bool:
    """Check that a text is job/attempt/component/n; no other text becomes a path."""
    return CLAIM.fullmatch(text) is not None


SHARED = "shared/"
"""Beginning of the names, after that of their owner, of files that everybody may read."""


def visible_name(name: str) -> str:
    """Return the name under which a program finds an input file: without its owner's `~ann/`."""
    if not name.startswith("~"):
        return name
    rest = name.partition("/")[2]
    return rest.removeprefix(SHARED) or rest or name


def is_upload(transfer: str) -> bool:
    """Return True for a transfer from the daemon's spool: its id begins with a checksum."""
    return _UPLOAD.fullmatch(transfer) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpooledName:
    """Name of an output or a log in the daemon's spool: `CLAIM/output/PATH`, `CLAIM/log/PATH`."""

    claim: str
    is_log: bool
    name: str

    def __str__(self) -> str:
        return f"{self.claim}/{'log' if self.is_log else 'output'}/{self.name}"

    @classmethod
    def read(cls, text: str) -> SpooledName | None:
        """Read a name; None for one of another kind, such as a transfer."""
        found = _SPOOLED.fullmatch(text)
        if found is None:
            return None
        return cls(claim=found["claim"], is_log=found["kind"] == "log", name=found["name"])
