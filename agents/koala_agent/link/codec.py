"""Messages of the link <-> plain values; no other module of the agent sees a link message.

`decode` answers a value of `session` or `messages`, None for a kind of
message that a later protocol has, or raises SpecError that names what cannot be meant: whatever
bytes come, nothing else. Empty and zero on the wire mean absent where `link.proto` says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from koala.errors import SpecError
from koala.files import orders
from koala.protocol import messages
from koala.protocol.limits import BYTES_MAX, PORT_MAX, RATE_MIN
from koala.protocol.messages import LogChunk, LogRequest
from koala.protocol.names import ClaimId, is_claim_id
from koala.protocol.versions import PROTOCOL, PROTOCOL_MIN
from koala.wire.v1 import link_pb2
from koala_agent.link import session

# From the daemon ---------------------------------------------------------------------------------


def decode(message: link_pb2.ToAgent) -> session.FromDaemon | None:
    """What the daemon said. Raises SpecError."""
    kind = message.WhichOneof("kind")
    match kind:
        case "welcome":
            return _welcome(message.welcome)
        case "reject":
            reject = message.reject
            return messages.Reject(reason=reject.reason, is_final=reject.is_final)
        case "wanted_end":
            return messages.WantedEnd()
        case "beat":
            return messages.Beat(number=message.beat.number, sent_at=message.beat.sent_at)
        case "goodbye":
            return messages.Goodbye(reason=message.goodbye.reason)
        case "hold" | "try_paths" | "arm" | "release" | "pace" | "stop" | "acknowledge":
            return _claim_order(kind, message)
        case "pong" | "kv_answer":
            is_pong = kind == "pong"
            body = _pong(message.pong) if is_pong else _kv_answer(message.kv_answer)
            return session.Order(body=body)
        case "fetch" | "serve" | "cancel_transfer":
            return _transfer_order(kind, message)
        case "log_request":
            return session.Order(body=_log_request(message.log_request))
        case _:
            return None


def mark_of(message: link_pb2.ToAgent) -> messages.Watermark | None:
    """The row of the journal that the message rests on, where it says one."""
    if not message.HasField("mark"):
        return None
    mark = message.mark
    return messages.Watermark(epoch=mark.epoch, seq=mark.seq, chain=mark.chain, seal=mark.seal)


def _welcome(welcome: link_pb2.Welcome) -> messages.Welcome:
    return messages.Welcome(
        epoch=welcome.epoch,
        protocol=welcome.protocol,
        hold_lease_s=_duration("hold_lease_s", welcome.hold_lease_s, is_infinite_allowed=True),
        run_lease_s=_duration("run_lease_s", welcome.run_lease_s, is_infinite_allowed=True),
        kill_s=_duration("kill_s", welcome.kill_s, is_zero_allowed=True),
        now=_finite("now", welcome.now),
        relay=welcome.relay,
    )


def _claim_order(kind: str, message: link_pb2.ToAgent) -> session.Order:
    body: object
    match kind:
        case "hold":
            body = _hold(message.hold)
        case "try_paths":
            body = _try_paths(message.try_paths)
        case "arm":
            body = _arm(message.arm)
        case "release":
            body = _release(message.release)
        case "pace":
            body = _pace(message.pace)
        case "stop":
            body = messages.Stop(claim=_claim(message.stop.claim))
        case _:
            body = messages.Acknowledge(claim=_claim(message.acknowledge.claim))
    return session.Order(body=body, claim=body.claim)


def _hold(hold: link_pb2.Hold) -> messages.Hold:
    if hold.processors < 1:
        raise SpecError(f"a Hold of {hold.claim[:200]!r} for 0 processors: allowed is 1 or more")
    return messages.Hold(
        claim=_claim(hold.claim),
        processors=hold.processors,
        hold_s=_duration("hold_s", hold.hold_s),
        program=_program(hold.program),
        ask_number=hold.ask_number,
        is_granted=hold.is_granted,
        owner=hold.owner,
        no_barrier=hold.no_barrier,
        inputs=tuple(hold.inputs),
        local_input=hold.local_input,
        chunk_offset=_offset("chunk_offset", hold.chunk_offset),
        chunk_bytes=_offset("chunk_bytes", hold.chunk_bytes),
        store_token=hold.store_token,
        is_preempting=hold.is_preempting,
        may_kill=hold.may_kill,
        progress_s=_duration("progress_s", hold.progress_s, is_zero_allowed=True),
    )


def _pace(pace: link_pb2.Pace) -> messages.Pace:
    if not 0 < pace.share <= 1:
        raise SpecError(f"share = {pace.share}: allowed is more than 0, at most 1")
    return messages.Pace(claim=_claim(pace.claim), share=pace.share)


def _program(program: link_pb2.Program) -> messages.Program:
    if b"\0" in b"".join(_texts_of(program)):
        raise SpecError("a program with a NUL character: allowed are those that a command can have")
    return messages.Program(
        executable=program.executable,
        label=program.label,
        arguments=tuple(program.arguments),
        directory=program.directory,
        environment=tuple((entry.name, entry.value) for entry in program.environment),
        stdin=program.stdin,
        stdout=program.stdout,
        stderr=program.stderr,
        processes=max(1, program.processes),
        hosts=program.hosts,
        wall_time_s=_duration("wall_time_s", program.wall_time_s, is_zero_allowed=True),
        cpu_time_s=_duration("cpu_time_s", program.cpu_time_s, is_zero_allowed=True),
        memory_min_mb=program.memory_min_mb,
        memory_max_mb=program.memory_max_mb,
        queue=program.queue,
        project=program.project,
        output_files=tuple(program.output_files),
        job_type=program.job_type or "multiple",
    )


def _texts_of(program: link_pb2.Program) -> Iterator[bytes]:
    """All that becomes part of a path or a command."""
    yield from (entry.name.encode() for entry in program.environment)
    yield from (entry.value.encode() for entry in program.environment)
    for field, value in program.ListFields():
        if field.cpp_type == field.CPPTYPE_STRING:
            texts = [value] if isinstance(value, str) else value
            yield from (text.encode() for text in texts)


def _try_paths(order: link_pb2.TryPaths) -> messages.TryPaths:
    return messages.TryPaths(
        claim=_claim(order.claim),
        label=order.label,
        address=order.address,
        listens=tuple(_port(port) for port in order.listens),
        targets=tuple(
            messages.PathTarget(
                label=target.label,
                address=target.address,
                port=_port(target.port),
                claim=_claim(target.claim),
            )
            for target in order.targets
        ),
        limit_s=_duration("limit_s", order.limit_s),
    )


def _port(port: int) -> int:
    if not 1 <= port <= PORT_MAX:
        raise SpecError(f"port = {port}: allowed are 1 to {PORT_MAX}")
    return port


def _arm(arm: link_pb2.Arm) -> messages.Arm:
    claim = _claim(arm.claim)
    peers = tuple(_peer(peer) for peer in arm.peers)
    if claim not in {peer.claim for peer in peers}:
        raise SpecError(f"an Arm of {claim} whose members do not include it")
    return messages.Arm(
        claim=claim,
        number=_number(arm.number),
        release_at=_finite("release_at", arm.release_at),
        late_s=_duration("late_s", arm.late_s),
        peers=peers,
    )


def _peer(peer: link_pb2.Peer) -> messages.Peer:
    return messages.Peer(
        component=peer.component,
        label=peer.label,
        site=peer.site,
        processors=peer.processors,
        processes=peer.processes,
        address=peer.address,
        claim=_claim(peer.claim),
        hosts=tuple((host.name, host.processors) for host in peer.hosts),
        job_type=peer.job_type or "multiple",
    )


def _release(release: link_pb2.Release) -> messages.Release:
    return messages.Release(
        claim=_claim(release.claim),
        number=_number(release.number),
        release_at=_finite("release_at", release.release_at),
    )


def _pong(pong: link_pb2.Pong) -> messages.Pong:
    return messages.Pong(
        claim=_claim(pong.claim),
        nonce=pong.nonce,
        sent_at=_finite("sent_at", pong.sent_at),
        now=_finite("now", pong.now),
    )


def _kv_answer(answer: link_pb2.KvAnswer) -> messages.KvAnswer:
    return messages.KvAnswer(
        claim=_claim(answer.claim),
        request=answer.request,
        ok=answer.ok,
        value=answer.value,
        error=answer.error,
    )


def _transfer_order(kind: str, message: link_pb2.ToAgent) -> session.Order:
    if kind == "fetch":
        fetch = message.fetch
        return session.Order(
            transfer=fetch.transfer,
            body=messages.FetchOrder(
                transfer=fetch.transfer,
                file=fetch.file,
                source=fetch.source,
                address=fetch.address,
                token=fetch.token,
                offset=fetch.offset,
                size_bytes=fetch.size_bytes,
                checksum=fetch.checksum,
                booked_bps=_rate("booked_bps", fetch.booked_bps),
                report_s=_rate("report_s", fetch.report_s),
            ),
        )
    if kind == "serve":
        serve = message.serve
        return session.Order(
            transfer=serve.transfer,
            body=messages.ServeOrder(
                transfer=serve.transfer,
                file=serve.file,
                target=serve.target,
                token=serve.token,
                offset=serve.offset,
                size_bytes=serve.size_bytes,
                relay=serve.relay,
                booked_bps=_rate("booked_bps", serve.booked_bps),
            ),
        )
    return session.Order(body=messages.CancelTransfer(transfer=message.cancel_transfer.transfer))


def _log_request(request: link_pb2.LogRequest) -> LogRequest:
    return LogRequest(
        request=request.request,
        claim=_claim(request.claim),
        stream=request.stream,
        process=request.process,
        offset=_offset("offset", request.offset),
        size_max=request.size_max,
    )


def _claim(text: str) -> ClaimId:
    if not is_claim_id(text):
        raise SpecError(f"{text[:200]!r} is no claim; allowed is job/attempt/component/n")
    return ClaimId(text)


def _number(number: link_pb2.ArmNumber) -> messages.ArmNumber:
    return messages.ArmNumber(epoch=number.epoch, counter=number.counter)


def _offset(name: str, value: int) -> int:
    """What no file reaches is none that a read can be told."""
    if value > BYTES_MAX:
        raise SpecError(f"{name} = {value}: allowed is at most {BYTES_MAX}")
    return value


def _rate(name: str, value: float) -> float:
    if value != 0 and not RATE_MIN <= value < math.inf:
        raise SpecError(f"{name} = {value}: allowed is 0, or at least {RATE_MIN:g} bytes a second")
    return value


def _finite(name: str, value: float) -> float:
    if not math.isfinite(value):
        raise SpecError(f"{name} = {value}: allowed is a finite number")
    return value


def _duration(
    name: str, value: float, *, is_zero_allowed: bool = False, is_infinite_allowed: bool = False
) -> float:
    is_some = 0 < value < math.inf
    if not (
        is_some or (value == 0 and is_zero_allowed) or (value == math.inf and is_infinite_allowed)
    ):
        raise SpecError(f"{name} = {value}: allowed is a duration above 0 s")
    return value


# To the daemon -----------------------------------------------------------------------------------


def encode(message: object, facts: messages.Facts) -> link_pb2.FromAgent:  # noqa: C901 - a line a kind
    """A message of the session or a report, as it goes over the wire."""
    match message:
        case messages.Register():
            return link_pb2.FromAgent(register=_register(message, facts))
        case messages.InventoryEnd():
            return link_pb2.FromAgent(inventory_end=link_pb2.InventoryEnd())
        case messages.Beat(number=number, sent_at=sent_at):
            return link_pb2.FromAgent(beat=link_pb2.Beat(number=number, sent_at=sent_at))
        case messages.Goodbye(reason=reason):
            return link_pb2.FromAgent(goodbye=link_pb2.Goodbye(reason=reason))
        case messages.SiteFigures():
            return link_pb2.FromAgent(site=_site_report(message))
        case LogChunk():
            return link_pb2.FromAgent(log=_log_chunk(message))
        case messages.PathsReport(claim=claim, problem=problem):
            paths = link_pb2.PathsReport(claim=claim, problem=problem)
            return link_pb2.FromAgent(paths=paths)
        case messages.Progress():
            return link_pb2.FromAgent(progress=_progress(message))
        case messages.Report() | messages.Ping() | messages.KvPut() | messages.KvGet():
            return _claim_message(message)
        case (
            messages.TransferProgress()
            | messages.TransferFinished()
            | messages.TransferFailed()
            | messages.FileFound()
            | messages.FileRemoved()
        ):
            return _file_message(message)
        case _:
            raise AssertionError(f"no message for {message!r}")


def _register(register: messages.Register, facts: messages.Facts) -> link_pb2.Register:
    mark = register.mark
    return link_pb2.Register(
        protocol=PROTOCOL,
        protocol_min=PROTOCOL_MIN,
        mark=None
        if mark is None
        else link_pb2.Mark(epoch=mark.epoch, seq=mark.seq, chain=mark.chain, seal=mark.seal),
        version=facts.version,
        site=facts.site,
        session=register.session,
        epoch_seen=register.epoch_seen,
        idle=register.idle,
        facts=link_pb2.Facts(
            processors=facts.processors,
            grace_s=facts.grace_s,
            starts_after_stop=facts.starts_after_stop,
            address=facts.address,
            serves=facts.serves,
            owner=facts.owner,
            honours=facts.honours,
            may_kill_local=facts.may_kill_local,
            users=facts.users,
            mips=facts.mips,
            slots=facts.slots,
        ),
    )


def _site_report(figures: messages.SiteFigures) -> link_pb2.SiteReport:
    return link_pb2.SiteReport(
        idle=figures.idle,
        through=figures.through,
        processors=figures.processors,
        local_processors=figures.local_processors,
        queued_jobs=figures.queued_jobs,
        trouble=figures.trouble,
    )


def _log_chunk(chunk: LogChunk) -> link_pb2.LogChunk:
    return link_pb2.LogChunk(
        request=chunk.request,
        data=chunk.data,
        offset=chunk.offset,
        is_over=chunk.is_over,
        error=chunk.error,
    )


def _progress(progress: messages.Progress) -> link_pb2.ProgressReport:
    return link_pb2.ProgressReport(
        claim=progress.claim,
        cycle=progress.cycle,
        work=progress.work,
        is_told=progress.is_told,
        can_pace=progress.can_pace,
    )


def _claim_message(
    message: messages.Report | messages.Ping | messages.KvPut | messages.KvGet,
) -> link_pb2.FromAgent:
    match message:
        case messages.Report():
            return link_pb2.FromAgent(claim=_report(message))
        case messages.Ping(claim=claim, nonce=nonce, sent_at=sent_at):
            ping = link_pb2.Ping(claim=claim, nonce=nonce, sent_at=sent_at)
            return link_pb2.FromAgent(ping=ping)
        case messages.KvPut(claim=claim, request=request, name=name, value=value):
            put = link_pb2.KvPut(claim=claim, request=request, name=name, value=value)
            return link_pb2.FromAgent(kv_put=put)
        case messages.KvGet(claim=claim, request=request, name=name, wait_s=wait_s):
            get = link_pb2.KvGet(claim=claim, request=request, name=name, wait_s=wait_s)
            return link_pb2.FromAgent(kv_get=get)


_STATES = {
    messages.ReportState.ASKED: link_pb2.CLAIM_STATE_ASKED,
    messages.ReportState.GRANTED: link_pb2.CLAIM_STATE_GRANTED,
    messages.ReportState.ARMED: link_pb2.CLAIM_STATE_ARMED,
    messages.ReportState.PASSED: link_pb2.CLAIM_STATE_PASSED,
    messages.ReportState.GONE: link_pb2.CLAIM_STATE_GONE,
}


def _report(report: messages.Report) -> link_pb2.ClaimReport:
    armed = report.armed
    return link_pb2.ClaimReport(
        claim=report.claim,
        state=_STATES[report.state],
        nonce=report.nonce,
        armed=link_pb2.ArmNumber(epoch=armed.epoch, counter=armed.counter) if armed else None,
        passed_at=report.passed_at or 0.0,
        end=_end(report.end) if report.end else None,
        batch_job=report.batch_job,
        address=report.address,
        hosts=[link_pb2.Host(name=name, processors=count) for name, count in report.hosts],
    )


def _end(end: messages.End) -> link_pb2.End:
    return link_pb2.End(
        kind=end.kind,
        reason=end.reason,
        statuses=end.statuses,
        ended_at=end.ended_at or 0.0,
        cpu_s=end.cpu_s,
        memory_bytes=end.memory_bytes,
    )


def _file_message(report: orders.Report) -> link_pb2.FromAgent:
    match report:
        case messages.TransferProgress(transfer=transfer, size_bytes=size_bytes, took_s=took_s):
            under_way = link_pb2.TransferReport(
                transfer=transfer, size_bytes=size_bytes, took_s=took_s
            )
            return link_pb2.FromAgent(transfer=under_way)
        case messages.TransferFinished(transfer=transfer, size_bytes=size_bytes, took_s=took_s):
            finished = link_pb2.TransferReport(
                transfer=transfer, is_finished=True, size_bytes=size_bytes, took_s=took_s
            )
            return link_pb2.FromAgent(transfer=finished)
        case messages.TransferFailed(transfer=transfer, reason=reason, at=at):
            failed = link_pb2.TransferReport(
                transfer=transfer, is_failed=True, reason=reason, at=at
            )
            return link_pb2.FromAgent(transfer=failed)
        case messages.FileFound(file=file, size_bytes=size_bytes, checksum=checksum):
            found = link_pb2.FileReport(file=file, size_bytes=size_bytes, checksum=checksum)
            return link_pb2.FromAgent(file=found)
        case messages.FileRemoved(file=file):
            return link_pb2.FromAgent(file=link_pb2.FileReport(file=file, is_removed=True))
