"""The link's messages and the core's values, translated both ways (proto/koala/wire/v1/link.proto).

`read` takes what an agent sent and answers a value of this module, built from the core's, or raises
SpecError that names the field, its value and what is allowed: whatever bytes an agent sends, the
core meets only finite numbers, well-formed ids and texts of bounded length. The other functions
make the daemon's messages. Instants are the daemon's, in seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from koala.core import actions as ac
from koala.core.grid import MIPS_DEFAULT, SiteFacts
from koala.core.job import ArmNumber, ClaimEnd, ClaimPhase, ComponentSpec, EndKind, StartType
from koala.core.values import (
    ClaimId,
    FileName,
    Instant,
    Seconds,
    SiteName,
    TransferId,
    UserName,
)
from koala.errors import SpecError
from koala.wire import common
from koala.wire.v1 import link_pb2 as pb

HONOURS_MAX = 100
USERS_MAX = 10_000
HOSTS_MAX = 4096
NAME_MAX = 256
REASON_MAX = 2_000
STATUSES_MAX = 65_536
PROCESSORS_MAX = 10_000_000
MARK_BYTES_MAX = 64
INSTANT_MAX = 2.5e11  # seconds; later ones have no date
AMOUNT_MAX = 2.0**53
WORK_MAX = 1e30  # of progress, whose unit is the program's own
BYTES_MAX = 2**62  # the journal's JSON and SQLite have 64-bit integers with a sign

_UINT32_MAX = 2**32 - 1  # of the messages' small numbers; more memory than that means the same

_CLAIM = re.compile(r"[A-Za-z0-9_.-]{1,64}/\d{1,9}/\d{1,9}/\d{1,9}")
_TRANSFER = re.compile(r"[A-Za-z0-9_.-]{1,64}/\d{1,9}/t\d{1,9}")
_SITE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

# --- what an agent says -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteMark:
    """A row of the journal as the agent of a site was told of it, by the daemon of `epoch`."""

    epoch: int
    seq: int
    chain: bytes
    seal: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """Opens a session of a site; `epoch_seen` is the highest daemon epoch that the agent stored,
    `mark` the last row of a journal that it was told of."""

    protocol: int
    version: str
    site: SiteName
    session: str
    epoch_seen: int
    facts: SiteFacts
    idle: int
    protocol_min: int = 0
    mark: SiteMark | None = None

    @property
    def spoken(self) -> int | None:
        """The version of the link that both speak; None: there is none."""
        return common(self.protocol, self.protocol_min or self.protocol)


@dataclass(frozen=True, slots=True)
class InventoryEnd:
    """All that the agent has was said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimNews:
    """The agent's newest knowledge of a claim. `passed_at` None: not passed; `end` with GONE."""

    claim: ClaimId
    phase: ClaimPhase
    nonce: str = ""
    armed: ArmNumber | None = None
    passed_at: Instant | None = None
    end: ClaimEnd | None = None
    batch_job: str = ""
    address: str = ""
    hosts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PathsNews:
    """The claim's starter has tried its TCP paths; `problem` is empty when all are open."""

    claim: ClaimId
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressNews:
    """How far a claim's program is at the end of a cycle."""

    claim: ClaimId
    cycle: int
    work: float
    is_told: bool
    can_pace: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteNews:
    """The site's figures; they include all asks up to number `through`. `trouble` is why it takes
    no new claims, in its own words; empty when it does."""

    idle: int
    through: int
    processors: int
    local_processors: int
    queued_jobs: int
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatEcho:
    """The echo of the daemon's beat `number`."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """A starter asks for its lease; `sent_at` is its own clock's, given back untouched."""

    claim: ClaimId
    nonce: str
    sent_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferNews:
    """A copy is complete, or given up by the fault of the site `at` (None: nobody's)."""

    transfer: TransferId
    is_finished: bool
    size_bytes: int
    took_s: Seconds
    reason: str
    at: SiteName | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileNews:
    """The site holds a copy of a logical file, or none any more."""

    file: FileName
    size_bytes: int
    checksum: str
    is_removed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KvPut:
    """A component gives a value to a name; `request` 0 in an inventory: no answer is wanted."""

    claim: ClaimId
    request: int
    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KvGet:
    """A component wants the value of a name, and waits for it up to `wait_s`."""

    claim: ClaimId
    request: int
    name: str
    wait_s: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """The answer to a LogRequest; `is_over` when nothing more will be written."""

    request: int
    offset: int
    data: bytes
    is_over: bool
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodbye:
    """An orderly end of the agent; jobs run on."""

    reason: str


News: TypeAlias = (
    Registration
    | InventoryEnd
    | ClaimNews
    | PathsNews
    | ProgressNews
    | SiteNews
    | BeatEcho
    | Ping
    | TransferNews
    | FileNews
    | KvPut
    | KvGet
    | LogPart
    | Goodbye
)


def read(message: pb.FromAgent) -> News | None:
    """What the agent said; None for a kind that only a later version has. Raises SpecError."""
    kind = message.WhichOneof("kind")
    if kind is None:
        return None
    return _READERS[kind](message)


def _registration(message: pb.FromAgent) -> Registration:
    register = message.register
    spoken = common(register.protocol, register.protocol_min or register.protocol)
    if spoken is None:  # nothing else of it can be trusted to mean what it says
        return Registration(
            protocol=register.protocol,
            protocol_min=register.protocol_min,
            version=_text("version", register.version),
            site=SiteName(_text("site", register.site)),
            session="",
            epoch_seen=0,
            facts=SiteFacts(processors=0),
            idle=0,
        )
    facts = register.facts
    return Registration(
        protocol=register.protocol,
        version=_text("version", register.version),
        site=_site(register.site),
        session=_text("session", register.session),
        epoch_seen=_count("epoch_seen", register.epoch_seen),
        facts=SiteFacts(
            processors=_count("processors", register.facts.processors, PROCESSORS_MAX),
            grace_s=_amount("grace_s", facts.grace_s),
            starts_after_stop=facts.starts_after_stop,
            address=_text("address", facts.address),
            serves=_text("serves", facts.serves),
            owner=UserName(_text("owner", facts.owner)) if facts.owner else None,
            may_kill_local=facts.may_kill_local,
            mips=_amount("mips", facts.mips) or MIPS_DEFAULT,
            slots=_count("slots", facts.slots, PROCESSORS_MAX) or None,
            honours=tuple(_text("honours", name) for name in facts.honours[:HONOURS_MAX]),
            users=_users(facts.users),
        ),
        idle=_count("idle", register.idle, PROCESSORS_MAX),
        protocol_min=register.protocol_min,
        mark=_mark(register.mark) if register.HasField("mark") else None,
    )


def _mark(mark: pb.Mark) -> SiteMark:
    for name, value in (("chain", mark.chain), ("seal", mark.seal)):
        if len(value) > MARK_BYTES_MAX:
            raise SpecError(f"mark.{name} has {len(value)} bytes: allowed are {MARK_BYTES_MAX}")
    return SiteMark(
        epoch=_count("mark.epoch", mark.epoch),
        seq=_count("mark.seq", mark.seq),
        chain=mark.chain,
        seal=mark.seal,
    )


_PHASES: dict[int, ClaimPhase] = {
    pb.CLAIM_STATE_ASKED: ClaimPhase.ASKED,
    pb.CLAIM_STATE_GRANTED: ClaimPhase.GRANTED,
    pb.CLAIM_STATE_ARMED: ClaimPhase.ARMED,
    pb.CLAIM_STATE_PASSED: ClaimPhase.PASSED,
    pb.CLAIM_STATE_GONE: ClaimPhase.GONE,
}


def _claim_news(message: pb.FromAgent) -> ClaimNews:
    report = message.claim
    phase = _PHASES.get(report.state)
    if phase is None:
        raise SpecError(f"state = {report.state} of claim {report.claim!r}: allowed are 1 to 5")
    armed = None
    if report.HasField("armed"):
        armed = ArmNumber(
            epoch=_count("armed.epoch", report.armed.epoch),
            counter=_count("armed.counter", report.armed.counter),
        )
    if phase is ClaimPhase.ARMED and armed is None:
        raise SpecError(f"claim {report.claim!r} is armed without a number")
    passed_at = _instant("passed_at", report.passed_at)
    if phase is ClaimPhase.PASSED and passed_at <= 0:
        raise SpecError(f"passed_at = {passed_at} of claim {report.claim!r}: its instant is needed")
    return ClaimNews(
        claim=_claim(report.claim),
        phase=phase,
        nonce=_text("nonce", report.nonce),
        address=_text("address", report.address),
        hosts=tuple(
            (_text("hosts", host.name), host.processors) for host in report.hosts[:HOSTS_MAX]
        ),
        armed=armed,
        passed_at=passed_at if passed_at > 0 else None,
        end=_end(report.end) if phase is ClaimPhase.GONE else None,
        batch_job=_text("batch_job", report.batch_job),
    )


_TOLD_ENDS = {str(kind): kind for kind in EndKind if kind is not EndKind.FENCED}


def _end(end: pb.End) -> ClaimEnd:
    kind = _TOLD_ENDS.get(end.kind)
    if kind is None:
        raise SpecError(f"end.kind = {end.kind[:40]!r}: allowed are {', '.join(_TOLD_ENDS)}")
    ended_at = _instant("end.ended_at", end.ended_at)
    return ClaimEnd(
        kind=kind,
        reason=end.reason[:REASON_MAX],
        statuses=tuple(end.statuses[:STATUSES_MAX]),
        ended_at=ended_at if ended_at > 0 else None,
        cpu_s=_amount("end.cpu_s", end.cpu_s) or None,
        memory_bytes=min(end.memory_bytes, BYTES_MAX) or None,
    )


def _paths_news(message: pb.FromAgent) -> PathsNews:
    report = message.paths
    return PathsNews(claim=_claim(report.claim), problem=report.problem[:REASON_MAX])


def _progress_news(message: pb.FromAgent) -> ProgressNews:
    report = message.progress
    work = report.work
    if not 0 <= work <= WORK_MAX:
        raise SpecError(f"work = {work} of claim {report.claim!r}: allowed is 0 to {WORK_MAX:g}")
    return ProgressNews(
        claim=_claim(report.claim),
        cycle=_count("cycle", report.cycle),
        work=work,
        is_told=report.is_told,
        can_pace=report.can_pace,
    )


def _site_news(message: pb.FromAgent) -> SiteNews:
    report = message.site
    return SiteNews(
        idle=_count("idle", report.idle, PROCESSORS_MAX),
        through=_count("through", report.through),
        processors=_count("processors", report.processors, PROCESSORS_MAX),
        local_processors=_count("local_processors", report.local_processors, PROCESSORS_MAX),
        queued_jobs=report.queued_jobs,
        trouble=report.trouble[:REASON_MAX],
    )


def _transfer_news(message: pb.FromAgent) -> TransferNews | None:
    report = message.transfer
    if report.is_finished == report.is_failed:
        return None  # under way: an inventory says so, and the core has nothing to learn from it
    return TransferNews(
        transfer=_transfer(report.transfer),
        is_finished=report.is_finished,
        size_bytes=_count("size_bytes", report.size_bytes, BYTES_MAX),
        took_s=_amount("took_s", report.took_s),
        reason=report.reason[:REASON_MAX],
        at=_site(report.at) if report.at else None,
    )


def _file_news(message: pb.FromAgent) -> FileNews:
    report = message.file
    if not report.file:
        raise SpecError("file = '': a logical name is needed")
    return FileNews(
        file=FileName(_text("file", report.file, 4096)),
        size_bytes=_count("size_bytes", report.size_bytes, BYTES_MAX),
        checksum=_text("checksum", report.checksum),
        is_removed=report.is_removed,
    )


def _kv_put(message: pb.FromAgent) -> KvPut:
    put = message.kv_put
    return KvPut(claim=_claim(put.claim), request=put.request, name=put.name, value=put.value)


def _kv_get(message: pb.FromAgent) -> KvGet:
    get = message.kv_get
    return KvGet(
        claim=_claim(get.claim),
        request=get.request,
        name=get.name,
        wait_s=_amount("wait_s", get.wait_s),
    )


def _log_part(message: pb.FromAgent) -> LogPart:
    chunk = message.log
    return LogPart(
        request=chunk.request,
        offset=chunk.offset,
        data=chunk.data,
        is_over=chunk.is_over,
        error=chunk.error[:REASON_MAX],
    )


def _ping(message: pb.FromAgent) -> Ping:
    ping = message.ping
    return Ping(claim=_claim(ping.claim), nonce=_text("nonce", ping.nonce), sent_at=ping.sent_at)


_READERS: dict[str, Callable[[pb.FromAgent], News | None]] = {
    "register": _registration,
    "inventory_end": lambda message: InventoryEnd(),
    "claim": _claim_news,
    "paths": _paths_news,
    "progress": _progress_news,
    "site": _site_news,
    "beat": lambda message: BeatEcho(number=message.beat.number),
    "ping": _ping,
    "transfer": _transfer_news,
    "file": _file_news,
    "kv_put": _kv_put,
    "kv_get": _kv_get,
    "log": _log_part,
    "goodbye": lambda message: Goodbye(reason=message.goodbye.reason[:REASON_MAX]),
}

# --- what the daemon says -------------------------------------------------------------------------


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
    """Which ports the claim's starter listens on, and whom it must reach."""
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


def with_mark(message: pb.ToAgent, mark: SiteMark) -> pb.ToAgent:
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


# --- checks ---------------------------------------------------------------------------------------


def _matching(name: str, value: str, pattern: re.Pattern[str]) -> str:
    if not pattern.fullmatch(value):
        raise SpecError(f"{name} = {value[:80]!r}: allowed is {pattern.pattern}")
    return value


def _claim(value: str) -> ClaimId:
    return ClaimId(_matching("claim", value, _CLAIM))


def _transfer(value: str) -> TransferId:
    return TransferId(_matching("transfer", value, _TRANSFER))


def local_queue(queue: str) -> SiteName | None:
    """The site at whose local queue a job is submitted."""
    return SiteName(_matching("queue", queue, _SITE)) if queue else None


def _site(value: str) -> SiteName:
    return SiteName(_matching("site", value, _SITE))


def _users(names: Sequence[str]) -> tuple[UserName, ...]:
    """Whose claims a site takes, each name once and in order, whatever the agent sent."""
    if len(names) > USERS_MAX:
        raise SpecError(f"users are {len(names)}: allowed are at most {USERS_MAX}")
    return tuple(sorted({UserName(_text("users", name)) for name in names}))


def _text(name: str, value: str, length_max: int = NAME_MAX) -> str:
    if len(value) > length_max:
        raise SpecError(f"{name} has {len(value)} characters: allowed are at most {length_max}")
    return value


def _count(name: str, value: int, value_max: int = BYTES_MAX) -> int:
    if value > value_max:
        raise SpecError(f"{name} = {value}: allowed is at most {value_max}")
    return value


def _instant(name: str, value: float) -> float:
    if not -INSTANT_MAX <= value <= INSTANT_MAX:
        raise SpecError(f"{name} = {value}: allowed is an instant up to {INSTANT_MAX:g} s")
    return value


def _amount(name: str, value: float) -> float:
    if not 0 <= value <= AMOUNT_MAX:
        raise SpecError(f"{name} = {value}: allowed is 0 to {AMOUNT_MAX:g}")
    return value
