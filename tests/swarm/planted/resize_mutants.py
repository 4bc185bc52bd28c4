"""Mutants of resizes in the core: deliberate bugs that the swarm, or scripts of it, must find."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from koala.core.model.job import Job
from koala.core.pipeline import claim_end, requeueing, start_barrier, wanted
from koala.core.pipeline.resizing import growth, managers
from tests.swarm.planted.mutating import Patches, mutant, replaced, unchecked


@mutant
def who_joins_passes_alone() -> Patches:
    """The first component that has armed is released, and those that join with it are not waited
    for."""
    real = start_barrier.note_armed

    def note_armed(claim: Any, arming: Any) -> Any:
        return replace(real(claim, arming), waiting=())

    def release_claims(state: Any, claims: Any, decision: Any) -> None:
        ready = [claim for claim in claims if claim.phase.name == "armed"]
        really_release(state, ready, decision)

    really_release = start_barrier.release_claims
    with (
        replaced((growth, "note_armed"), by=note_armed),
        replaced((growth, "release_claims"), by=release_claims),
        unchecked(),
    ):
        yield


@mutant
def jobs_give_way_below_their_least() -> Patches:
    """Components are asked to give way as if the job needed one processor."""
    real = managers._to_leave

    def to_leave(job: Job, candidates: Any, processors: int, of: Any = ()) -> Any:
        assert job.spec.split is not None
        needy = replace(job.spec, split=replace(job.spec.split, least=1))
        other = Job(
            id=job.id,
            spec=needy,
            submitted_at=job.submitted_at,
            phase=job.phase,
            claim_fraction=job.claim_fraction,
        )
        return real(other, candidates, processors, of=of)

    with replaced((managers, "_to_leave"), by=to_leave):
        yield


@mutant
def a_failed_addition_ends_the_attempt() -> Patches:
    """A component that does not join takes the others with it."""

    def lose_addition(state: Any, attempt: Any, _member: Any, reason: str, now: float) -> None:
        requeueing.set_back(state, attempt, reason, now)

    with replaced((growth, "lose_addition"), (claim_end, "lose_addition"), by=lose_addition):
        yield


@mutant
def who_gives_way_has_failed() -> Patches:
    """The end of a component that was asked to give way counts as any other."""

    def on_resize_gone(*_: Any) -> bool:
        return False

    with replaced((claim_end, "on_resize_gone"), by=on_resize_gone):
        yield


@mutant
def nobody_is_made_to_give_way() -> Patches:
    """A component that does not give way in time is let run on."""
    with replaced((growth, "stop_overdue"), by=lambda *_: None):
        yield


@mutant
def worlds_are_not_told_again() -> Patches:
    """A site that comes back is not told the world of its malleable jobs."""
    real = wanted.wanted

    def without(state: Any, site: Any) -> Any:
        return replace(real(state, site), resizes=())

    from koala.core import scheduler

    with replaced((scheduler, "wanted"), by=without):
        yield
