"""Wanted state of a site as a function of the state."""

from __future__ import annotations

from koala.common.protocol.messages import HeldFile, PathTarget, Peer
from koala.core.model import actions
from koala.core.model.claim import Asked, Claim, Passed, Released, Stopped
from koala.core.model.job import (
    Attempt,
    Job,
    Member,
    PathTests,
    Release,
    Releasing,
    Running,
    Starting,
)
from koala.core.model.job_spec import InputMode, JobType, StartType
from koala.core.model.replicas import Transfer
from koala.core.model.tcp_paths import master_port, paths_of
from koala.core.model.values import SiteName, TransferId
from koala.core.pipeline.progress_control import current_shares
from koala.core.queries import address_of, claims_of, copies_to, part_of_file
from koala.core.state import State


def wanted(state: State, site: SiteName) -> actions.Wanted:
    """Compute all claims and transfers that the site must know."""
    holds: list[actions.ClaimProcessors] = []
    paths: list[actions.TryPaths] = []
    releases: list[actions.ReleaseClaim] = []
    paced: list[actions.PaceClaim] = []
    resizes: list[actions.ResizeClaim] = []
    stops: list[actions.StopClaim] = []
    for claim in state.ledger.values():
        if claim.site != site:
            continue
        if isinstance(claim.phase, Stopped):
            stops.append(actions.StopClaim(claim=claim.id, site=site))
            continue
        attempt = state.placed[claim.job]
        holds.append(hold(state, attempt, claim))
        share = current_shares(state, attempt).get(claim.component)
        if share is not None:
            paced.append(actions.PaceClaim(claim=claim.id, site=site, share=share))
        match state.jobs[claim.job].phase:
            case _ if claim.start_type is StartType.NONE:
                pass
            case Releasing(release=release) | Running(release=Release() as release):
                if isinstance(claim.phase, Released | Passed):  # a growth has its own
                    joined = attempt.members[claim.component].joined
                    releases.append(release_claim(claim, joined or release))
                if attempt.resizes and is_told(attempt, claim):
                    resizes.append(resize_claim(state, attempt, claim))
            case Starting(tests=PathTests(waiting=untried)) if claim.id in untried:
                paths.append(try_paths(state, attempt, claim))
            case _:
                pass
    transfers = state.files.transfers.values()
    return actions.Wanted(
        holds=tuple(holds),
        paths=tuple(paths),
        releases=tuple(releases),
        paces=tuple(paced),
        resizes=tuple(resizes),
        stops=tuple(stops),
        fetches=tuple(start_transfer(state, t) for t in transfers if t.target == site),
        serves=tuple(
            start_transfer(state, t) for t in transfers if t.source == site and not t.is_done
        ),
    )


def hold(state: State, attempt: Attempt, claim: Claim) -> actions.ClaimProcessors:
    """Make the ClaimProcessors of a claim, as its site's agent must know it now."""
    job = state.jobs[claim.job]
    member = attempt.members[claim.component]
    files = job.spec.inputs_of(claim.component)
    inputs = copies_to(state, member, claim.site)
    is_local = bool(files) and not inputs
    offset, size_bytes = 0, 0
    if is_local and job.spec.input_mode is InputMode.CHUNK:
        offset, size_bytes = part_of_file(state, job, claim.component)
    return actions.ClaimProcessors(
        claim=claim.id,
        site=claim.site,
        ask_number=claim.ask_number,
        is_granted=not isinstance(claim.phase, Asked),
        is_preempting=claim.is_preempting,
        waits=claim.is_ticket,
        is_gated=claim.is_gated,
        begins_at=claim.begins_at,
        wake_s=claim.wake_s,
        may_kill=claim.may_kill,
        owner=job.spec.owner,
        processors=job.spec.components[claim.component].processors,
        hold_s=claim.hold_s,
        no_barrier=claim.start_type is StartType.NONE,
        program=job.spec.components[claim.component].program(
            job.spec.label(claim.component), job.spec.name, is_malleable=job.spec.is_malleable
        ),
        progress_s=state.parameters.progress_cycle_s
        if job.spec.is_controlled and claim.start_type is not StartType.NONE
        else 0.0,
        inputs=inputs,
        files=_held_files(state, job, member, inputs),
        chunk_offset=offset,
        chunk_bytes=size_bytes,
        port=master_port(job, claim.attempt),
    )


def _held_files(
    state: State, job: Job, member: Member, inputs: tuple[TransferId, ...]
) -> tuple[HeldFile, ...]:
    """List a claim's input files, each with the copy that brings it; none where the site has it."""
    files = job.spec.inputs_of(member.component)
    if len(files) < 2:
        return tuple([HeldFile(file=file.name, transfer=(*inputs, "")[0]) for file in files])
    copies = {
        state.files.transfers[copy_id].file: copy_id
        for copy_id in inputs
        if copy_id in state.files.transfers
    }
    return tuple([HeldFile(file=file.name, transfer=copies.get(file.name, "")) for file in files])


def try_paths(state: State, attempt: Attempt, claim: Claim) -> actions.TryPaths:
    """Make the path test of a claim: the ports to listen on and the targets to connect to."""
    job = state.jobs[claim.job]
    reached = paths_of(job.spec)
    listens = reached.listens(claim.component)
    world = _world_port(job, attempt, claim)
    if world is not None and world[0] == claim.component:
        listens = tuple(dict.fromkeys((*listens, world[1])))
    meeting = claims_of(state, attempt.at_barrier)
    if len(meeting) > 1:
        named = (port for _name, port in job.spec.components[claim.component].ports)
        listens = tuple(dict.fromkeys((*listens, *named)))
    targets = []
    for target in meeting:
        ports = reached.targets(claim.component, target.component)
        if world is not None and world[0] == target.component != claim.component:
            ports = tuple(dict.fromkeys((*ports, world[1])))
        targets += [
            PathTarget(
                label=job.spec.label(target.component),
                address=address_of(state, target),
                port=port,
                claim=target.id,
            )
            for port in ports
        ]
        named = (port for _name, port in job.spec.components[target.component].ports)
        targets += [
            PathTarget(
                label=job.spec.label(target.component),
                address=address_of(state, target),
                port=port,
                claim=target.id,
                may_fail=True,
            )
            for port in dict.fromkeys(named)
            if target is not claim and port not in ports
        ]
    return actions.TryPaths(
        claim=claim.id,
        site=claim.site,
        label=job.spec.label(claim.component),
        address=address_of(state, claim),
        listens=listens,
        targets=tuple(targets),
        limit_s=state.parameters.paths_limit_s,
    )


def _world_port(job: Job, attempt: Attempt, claim: Claim) -> tuple[int, int] | None:
    """Return the component and port of the launcher of this component's MPI world; None if it is in
    none."""
    components = job.spec.components
    world = [
        member.component
        for member in attempt.at_barrier
        if components[member.component].job_type is JobType.MPI
    ]
    if claim.component not in world or len(world) < 2:
        return None
    return world[0], master_port(job, claim.attempt)


def peers_of(state: State, job: Job, claims: list[Claim]) -> tuple[Peer, ...]:
    """Return the members that meet at a barrier, or run after it. Components without a barrier
    began before, each as its own world; they are left out, or ranks would wait for processes
    outside of theirs."""
    components = job.spec.components
    return tuple(
        Peer(
            component=claim.component,
            label=job.spec.label(claim.component),
            site=claim.site,
            processors=components[claim.component].processors,
            processes=components[claim.component].processes,
            address=address_of(state, claim),
            port=master_port(job, claim.attempt),
            claim=claim.id,
            hosts=claim.grant.hosts if claim.grant is not None else (),
            job_type=components[claim.component].job_type,
        )
        for claim in claims
    )


def is_told(attempt: Attempt, claim: Claim) -> bool:
    """Return True if a claim of a malleable job is told its world: one that joins began with the
    world that comes about when all of its growth have passed."""
    member = attempt.members[claim.component]
    return isinstance(claim.phase, Passed) and not attempt.is_growing(member)


def resize_claim(state: State, attempt: Attempt, claim: Claim) -> actions.ResizeClaim:
    """Make the newest world of a malleable job, as a running claim of it must know it."""
    job, member = state.jobs[claim.job], attempt.members[claim.component]
    world = attempt.world if member in attempt.world else [*attempt.world, member]
    return actions.ResizeClaim(
        claim=claim.id,
        site=claim.site,
        number=attempt.resizes,
        peers=peers_of(state, job, claims_of(state, world)),
        leave_s=member.leave_s,
    )


def start_transfer(state: State, transfer: Transfer) -> actions.StartTransfer:
    """Make the StartTransfer of a copy under way."""
    return actions.StartTransfer(
        transfer=transfer.id,
        file=transfer.file,
        source=transfer.source,
        target=transfer.target,
        offset=transfer.offset,
        size_bytes=transfer.size_bytes,
        checksum=transfer.checksum,
        booked_bps=transfer.booked_bps,
        report_s=state.parameters.transfer_report_s,
    )


def release_claim(claim: Claim, release: Release) -> actions.ReleaseClaim:
    """Make the Release of a claim; always the same for one attempt."""
    return actions.ReleaseClaim(
        claim=claim.id, site=claim.site, number=release.number, release_at=release.at
    )
