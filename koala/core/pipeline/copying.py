"""Assign sites to the members of an attempt, and start the copies of their input files."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from koala.core.model.grid import Assignment
from koala.core.model.job import Attempt, Job, Member
from koala.core.model.replicas import Transfer
from koala.core.model.values import FileName, Instant, SiteName, transfer_id
from koala.core.pipeline.ending import drop_copies
from koala.core.pipeline.refusals import without_closed_sites
from koala.core.pipeline.wanted import start_transfer
from koala.core.queries import copies_to, grid_view_of, part_of_file
from koala.core.state import State
from koala.core.ticket_sites import sites_of


def assign_member(
    state: State, attempt: Attempt, member: Member, assignment: Assignment, now: Instant
) -> None:
    """Assign a member its execution site and file site, and start its transfer at the booked
    rate.
    """
    drop_copies(state, attempt, member, member.transfers, now)
    member.site = assignment.site
    member.source = assignment.source
    member.mips = assignment.mips
    member.booked_bps = assignment.booked_bps if assignment.source is None else 0.0
    copies = _copies(state, attempt, member, assignment, now)
    if not copies:  # also where a policy named a source of files that are all at the site
        member.source = None
    member.transfers = tuple([copy.id for copy in copies])
    member.is_fetched = all(copy.is_done for copy in copies)


def add_site(
    state: State, attempt: Attempt, member: Member, assignment: Assignment, now: Instant
) -> None:
    """Give a member a further site, in whose queue it waits, too, and start its transfer there."""
    member.others = (*member.others, assignment.site)
    copies = _copies(state, attempt, member, assignment, now)
    member.transfers = tuple(dict.fromkeys([*member.transfers, *[copy.id for copy in copies]]))


def move_to(state: State, member: Member, site: SiteName, *, others: Collection[SiteName]) -> None:
    """Make one of its sites that of a member: it holds there, or has left the one before."""
    member.others = tuple([name for name in others if name != site])
    if site == member.site:
        return
    member.site = site
    member.booked_bps = 0.0
    copies = [state.files.transfers[copy_id] for copy_id in copies_to(state, member, site)]
    member.source = copies[0].source if copies else None
    member.is_fetched = all(copy.is_done for copy in copies)


def drop_copies_elsewhere(state: State, attempt: Attempt, member: Member, now: Instant) -> None:
    """Drop the copies of a member to sites that are not its own any more."""
    here = [copy_id for site in sites_of(member) for copy_id in copies_to(state, member, site)]
    drop_copies(state, attempt, member, set(member.transfers).difference(here), now)


def _copies(
    state: State, attempt: Attempt, member: Member, assignment: Assignment, now: Instant
) -> list[Transfer]:
    """Start the copies of a member's input files to the site of an assignment."""
    job = state.jobs[attempt.job]
    if assignment.source is None or not job.spec.inputs_of(member.component):
        return []
    sources = _sources(state, job, member.component, assignment, now)
    sum_bytes = sum(size_bytes for _, _, (_, size_bytes) in sources) or 1
    copies = []
    for file, source, part in sources:
        booked_bps = assignment.booked_bps * (part[1] / sum_bytes)  # for all files together
        share = replace(assignment, booked_bps=booked_bps)
        copies.append(_copy(state, attempt, file, source, share, part, now))
    return copies


def _sources(
    state: State, job: Job, component: int, assignment: Assignment, now: Instant
) -> list[tuple[FileName, SiteName, tuple[int, int]]]:
    """Find the input files that must be copied to the site of an assignment, each with its source
    and the offset and size of the part to copy. The assignment names the source of one file only:
    of several files each comes from where it arrives first.
    """
    assert assignment.source is not None
    files = job.spec.inputs_of(component)
    if len(files) == 1:
        return [(files[0].name, assignment.source, part_of_file(state, job, component))]
    view = without_closed_sites(state, job, grid_view_of(state), now)
    sources = []
    for file in files:
        replica = state.files.replicas[file.name]
        if assignment.site not in replica.sites:
            booked = assignment.source if assignment.booked_bps else None
            source = booked or view.source(file.name, assignment.site, job.spec.owner)
            sources.append((file.name, source or replica.sites[0], (0, replica.size_bytes)))
    return sources


def _copy(
    state: State,
    attempt: Attempt,
    file: FileName,
    source: SiteName,
    assignment: Assignment,
    part: tuple[int, int],
    now: Instant,
) -> Transfer:
    """Start a copy of a part of a file; share one that is under way for another component."""
    offset, size_bytes = part
    for candidate in [copy_id for member in attempt.present for copy_id in member.transfers]:
        shared = state.files.transfers.get(candidate)
        if shared and (shared.file, shared.target, shared.offset, shared.size_bytes) == (
            file,
            assignment.site,
            offset,
            size_bytes,
        ):
            return shared
    attempt.transfers += 1
    replica = state.files.replicas[file]
    is_whole = (offset, size_bytes) == (0, replica.size_bytes)
    transfer = Transfer(
        id=transfer_id(attempt.job, attempt=attempt.number, n=attempt.transfers),
        job=attempt.job,
        attempt=attempt.number,
        file=file,
        source=source,
        target=assignment.site,
        offset=offset,
        size_bytes=size_bytes,
        checksum=replica.checksum if is_whole else "",
        started_at=now,
        expected_at=now + assignment.transfer_s,
        booked_bps=assignment.booked_bps,
    )
    state.files.transfers[transfer.id] = transfer
    state.actions.append(start_transfer(state, transfer))
    return transfer
