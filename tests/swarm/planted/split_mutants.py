"""Mutants of the splits of flexible jobs: deliberate bugs that the swarm must find."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from koala.core import answer_recorder, splitting
from koala.core.model.grid import Assignment
from koala.core.model.job import Job
from koala.core.pipeline import claiming, placement_requests
from koala.policies.placement import cluster_minimization
from tests.swarm.planted.mutating import Patches, mutant, replaced, unchecked


@mutant
def a_rest_is_smaller_than_its_bound() -> Patches:
    """A split fills its sites and leaves whatever is left to the last one."""
    real = splitting.shares_of

    def shares_of(split: Any, rooms: Any) -> Any:
        return real(replace(split, part_min=1), rooms)

    with replaced((cluster_minimization, "shares_of"), by=shares_of), unchecked():
        yield


@mutant
def a_split_that_needs_less() -> Patches:
    """A job that is not malleable starts with what it can have."""
    real = splitting.shares_of

    def shares_of(split: Any, rooms: Any) -> Any:
        return real(replace(split, least=split.part_min), rooms)

    with replaced((cluster_minimization, "shares_of"), by=shares_of), unchecked():
        yield


@mutant
def the_first_split_is_kept() -> Patches:
    """A job that is placed again keeps the components of its first attempt."""
    real = Job.respecify

    def respecify(job: Job, spec: Any) -> None:
        if job.attempts == 0:
            real(job, spec)

    with replaced((Job, "respecify"), by=respecify), unchecked():
        yield


@mutant
def sizes_that_are_not_recorded() -> Patches:
    """The journal keeps the sites of a split, and not its sizes."""
    real = answer_recorder._rows

    def rows(assignments: tuple[Assignment, ...]) -> Any:
        return real(tuple([replace(one, processors=0) for one in assignments]))

    with replaced((answer_recorder, "_rows"), by=rows):
        yield


@mutant
def a_rest_without_the_bound_of_components() -> Patches:
    """A refused share is split anew as if nothing of the job were held."""
    real = placement_requests.ask_placement

    def ask(state: Any, job: Job, request: Any, view: Any) -> Any:
        split = replace(request.split, parts_max=request.split.total)
        return real(state, job, replace(request, split=split), view)

    with replaced((claiming, "ask_placement"), by=ask):
        yield


@mutant
def an_unanswered_share_that_stays() -> Patches:
    """A share that is split anew after its grace time is not stopped at its first site."""
    with replaced((claiming, "stop_member"), by=lambda _state, _member: None):
        yield
