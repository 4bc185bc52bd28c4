"""Translate values of the core into messages for agents.

One function a kind of message (proto/koala/wire/v1/link.proto). Instants are the daemon's, in
seconds.
"""

from __future__ import annotations

from koala.core.model import actions as ac
from koala.core.model.job import ArmNumber, ComponentSpec, StartType
from koala.core.model.values import ClaimId, Instant, Seconds, TransferId
from koala.protocol.messages import Ping, Watermark
from koala.wire.v1 import link_pb2 as pb

_UINT32_MAX = 2**32 - 1  # of the messages' small numbers; more memory than that means the same


def hold(action: ac.ClaimProcessors, *, store_token: str = "") -> pb.ToAgent:
    """A claim to be held."""
    message = pb.Hold(
        claim=action.claim,
        ask_number=action.ask_number,
        is_granted=action.is_granted,
        owner=action.owner,
        processors=action.processors,
        hold_s=action.hold_s,
        no_barrier=action.start_type is StartType.NONE,
        program=_program(action.component, action.label),
        inputs=action.inputs,
        local_input=action.local_input or "",
        store_token=store_token,
        is_preempting=action.is_preempting,
        may_kill=action.may_kill,
        progress_s=action.progress_s,
    )
    if action.chunk is not None:
        message.chunk_offset, message.chunk_bytes = action.chunk
    return pb.ToAgent(hold=message)


def _program(component: ComponentSpec, label: str) -> pb.Program:
    return pb.Program(
        label=label,
        executable=component.executable,
        arguments=component.arguments,
        directory=component.directory or "",
        environment=[pb.Variable(name=name, value=value) for name, value in component.environment],
        stdin=component.stdin or "",
        stdout=component.stdout or "",
        stderr=component.stderr or "",
        processes=component.processes,
        hosts=min(component.hosts or 0, _UINT32_MAX),
        wall_time_s=component.wall_time_s or 0.0,
        cpu_time_s=component.cpu_time_s or 0.0,
        memory_min_mb=min(component.memory_min_mb or 0, _UINT32_MAX),
        memory_max_mb=min(component.memory_max_mb or 0, _UINT32_MAX),
        queue=component.queue or "",
        project=component.project or "",
        output_files=component.output_files,
        job_type=component.job_type,
    )


def try_paths(action: ac.TryPaths) -> pb.ToAgent:
    """Tell a claim's starter its ports to listen on, and the peers to reach."""
    return pb.ToAgent(
        try_paths=pb.TryPaths(
            claim=action.claim,
            label=action.label,
            address=action.address,
            listens=action.listens,
            targets=[
                pb.PathTarget(
                    label=target.label,
                    address=target.address,
                    port=target.port,
                    claim=target.claim,
                )
                for target in action.targets
            ],
            limit_s=action.limit_s,
        )
    )


def arm(action: ac.ArmClaim) -> pb.ToAgent:
    """Ask for the promise of a claim's starter."""
    return pb.ToAgent(
        arm=pb.Arm(
            claim=action.claim,
            number=_number(action.number),
            release_at=action.release_at,
            late_s=action.late_s,
            peers=[
                pb.Peer(
                    component=peer.component,
                    label=peer.label,
                    site=peer.site,
                    processors=peer.processors,
                    processes=peer.processes,
                    address=peer.address,
                    claim=peer.claim,
                    hosts=[pb.Host(name=name, processors=count) for name, count in peer.hosts],
                    job_type=peer.job_type,
                )
                for peer in action.peers
            ],
        )
    )


def release(action: ac.ReleaseClaim) -> pb.ToAgent:
    """The barrier opens at T."""
    return pb.ToAgent(
        release=pb.Release(
            claim=action.claim, number=_number(action.number), release_at=action.release_at
        )
    )


def pace(action: ac.PaceClaim) -> pb.ToAgent:
    """The share of the time that the claim's program may run."""
    return pb.ToAgent(pace=pb.Pace(claim=action.claim, share=action.share))


def stop(claim: ClaimId) -> pb.ToAgent:
    """Do not pass, or end."""
    return pb.ToAgent(stop=pb.Stop(claim=claim))


def acknowledge(claim: ClaimId) -> pb.ToAgent:
    """The claim's end is durable here."""
    return pb.ToAgent(acknowledge=pb.Acknowledge(claim=claim))


def fetch(action: ac.StartTransfer, *, address: str, token: str) -> pb.ToAgent:
    """To the target: fetch from `address`, the source's file server or the relay."""
    return pb.ToAgent(
        fetch=pb.Fetch(
            transfer=action.transfer,
            file=action.file,
            source=action.source,
            address=address,
            token=token,
            offset=action.offset,
            size_bytes=action.size_bytes,
            checksum=action.checksum,
            booked_bps=action.booked_bps,
            report_s=action.report_s,
        )
    )


def serve(action: ac.StartTransfer, *, relay: str, token: str) -> pb.ToAgent:
    """To the source: serve on the own file server, or through the relay when it is named."""
    return pb.ToAgent(
        serve=pb.Serve(
            transfer=action.transfer,
            file=action.file,
            target=action.target,
            token=token,
            offset=action.offset,
            size_bytes=action.size_bytes,
            relay=relay,
            booked_bps=action.booked_bps,
        )
    )


def cancel_transfer(transfer: TransferId) -> pb.ToAgent:
    """The copy is not wanted any more."""
    return pb.ToAgent(cancel_transfer=pb.CancelTransfer(transfer=transfer))


def beat(number: int, sent_at: Instant) -> pb.ToAgent:
    """To be echoed at once."""
    return pb.ToAgent(beat=pb.Beat(number=number, sent_at=sent_at))


def pong(ping: Ping, now: Instant) -> pb.ToAgent:
    """The claim is wanted: its lease begins anew at the sending of the ping."""
    return pb.ToAgent(
        pong=pb.Pong(claim=ping.claim, nonce=ping.nonce, sent_at=ping.sent_at, now=now)
    )


def kv_answer(claim: ClaimId, request: int, *, value: str = "", error: str = "") -> pb.ToAgent:
    """The answer to a put or get; it is well when there is no error."""
    return pb.ToAgent(
        kv_answer=pb.KvAnswer(claim=claim, request=request, ok=not error, value=value, error=error)
    )


def log_request(
    request: int, claim: ClaimId, *, stream: str, process: int, offset: int, size_max: int
) -> pb.ToAgent:
    """A part of what a process of the claim wrote."""
    return pb.ToAgent(
        log_request=pb.LogRequest(
            request=request,
            claim=claim,
            stream=stream,
            process=process,
            offset=offset,
            size_max=size_max,
        )
    )


def welcome(
    *,
    epoch: int,
    protocol: int,
    leases: tuple[Seconds, Seconds, Seconds],
    now: Instant,
    relay: str,
) -> pb.ToAgent:
    """The session is taken; `leases` are hold_lease_s, run_lease_s and kill_s."""
    hold_lease_s, run_lease_s, kill_s = leases
    return pb.ToAgent(
        welcome=pb.Welcome(
            epoch=epoch,
            protocol=protocol,
            hold_lease_s=hold_lease_s,
            run_lease_s=run_lease_s,
            kill_s=kill_s,
            now=now,
            relay=relay,
        )
    )


def with_mark(message: pb.ToAgent, mark: Watermark) -> pb.ToAgent:
    """The message, with the newest committed row of the journal."""
    message.mark.CopyFrom(pb.Mark(epoch=mark.epoch, seq=mark.seq, chain=mark.chain, seal=mark.seal))
    return message


def wanted_end() -> pb.ToAgent:
    """All that is wanted was said."""
    return pb.ToAgent(wanted_end=pb.WantedEnd())


def reject(reason: str, *, is_final: bool) -> pb.ToAgent:
    """The session is not taken."""
    return pb.ToAgent(reject=pb.Reject(reason=reason, is_final=is_final))


def goodbye(reason: str) -> pb.ToAgent:
    """Said before an orderly end."""
    return pb.ToAgent(goodbye=pb.Goodbye(reason=reason))


def _number(number: ArmNumber) -> pb.ArmNumber:
    return pb.ArmNumber(epoch=number.epoch, counter=number.counter)
