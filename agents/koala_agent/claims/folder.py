"""Folder of a claim: its name, and the starter's record in it."""

from __future__ import annotations

from dataclasses import dataclass

from koala.common.protocol.messages import ClaimEnd
from koala.common.protocol.names import ClaimId, is_claim_id


def folder_name(claim: ClaimId) -> str:
    """Name the claim's folder: unique, because the last three parts are always numbers."""
    assert is_claim_id(claim), claim
    return claim.replace("/", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class StarterRecord:
    """Record that a starter keeps in its folder. It outlives starter and agent."""

    nonce: str
    began_at: float | None = None
    passed_at: float | None = None
    end: ClaimEnd | None = None
