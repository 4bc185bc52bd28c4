"""Decode messages of agents: the link's own, or values of the core where they differ.

`read` raises SpecError that names the field, its value and what is allowed. Whatever bytes an agent
sends, the core meets only finite numbers, well-formed ids and texts of bounded length. Instants are
seconds of the daemon's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from koala.core.model.grid import MIPS_DEFAULT, SiteFacts
from koala.core.model.job import ArmNumber, ClaimEnd, ClaimPhase, EndKind
from koala.core.model.values import (
    ClaimId,
    FileName,
    Instant,
    Seconds,
    SiteName,
    TransferId,
    UserName,
)
from koala.errors import SpecError
from koala.protocol import checks
from koala.protocol.limits import (
    BYTES_MAX,
    HONOURS_MAX,
    HOSTS_MAX,
    PROCESSORS_MAX,
    REASON_MAX,
    STATUSES_MAX,
    USERS_MAX,
    WATERMARK_BYTES_MAX,
    WORK_MAX,
)
from koala.protocol.messages import (
    Goodbye,
    InventoryEnd,
    KvGet,
    KvPut,
    LogChunk,
    PathsReport,
    Ping,
    Progress,
    SiteFigures,
    Watermark,
)
from koala.protocol.versions import common
from koala.wire.v1 import link_pb2 as pb


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
    mark: Watermark | None = None

    @property
    def spoken(self) -> int | None:
        """The version of the link that both speak; None: there is none."""
        return common(self.protocol, self.protocol_min or self.protocol)


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
class BeatEcho:
    """The echo of the daemon's beat `number`."""

    number: int


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
class CopyNews:
    """Report the progress of a copy: so many bytes in so many seconds."""

    transfer: TransferId
    size_bytes: int
    took_s: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class FileNews:
    """The site holds a copy of a logical file, or none any more."""

    file: FileName
    size_bytes: int
    checksum: str
    is_removed: bool


News: TypeAlias = (
    Registration
    | InventoryEnd
    | ClaimNews
    | PathsReport
    | Progress
    | SiteFigures
    | BeatEcho
    | Ping
    | TransferNews
    | CopyNews
    | FileNews
    | KvPut
    | KvGet
    | LogChunk
    | Goodbye
)


def read(message: pb.FromAgent) -> News | None:
    """Decode a message of an agent; None for a kind of a later version. Raises SpecError."""
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
            version=checks.printable("version", register.version),
            site=SiteName(checks.text("site", register.site)),
            session="",
            epoch_seen=0,
            facts=SiteFacts(processors=0),
            idle=0,
        )
    facts = register.facts
    return Registration(
        protocol=register.protocol,
        version=checks.printable("version", register.version),
        site=checks.site(register.site),
        session=checks.printable("session", register.session),
        epoch_seen=checks.count("epoch_seen", register.epoch_seen),
        facts=SiteFacts(
            processors=checks.count("processors", register.facts.processors, PROCESSORS_MAX),
            grace_s=checks.amount("grace_s", facts.grace_s),
            starts_after_stop=facts.starts_after_stop,
            address=checks.host("address", facts.address),
            serves=checks.endpoint("serves", facts.serves),
            owner=UserName(checks.printable("owner", facts.owner)) if facts.owner else None,
            may_kill_local=facts.may_kill_local,
            mips=checks.amount("mips", facts.mips) or MIPS_DEFAULT,
            slots=checks.count("slots", facts.slots, PROCESSORS_MAX) or None,
            honours=tuple(
                checks.printable("honours", name) for name in facts.honours[:HONOURS_MAX]
            ),
            users=_users(facts.users),
        ),
        idle=checks.count("idle", register.idle, PROCESSORS_MAX),
        protocol_min=register.protocol_min,
        mark=_mark(register.mark) if register.HasField("mark") else None,
    )


def _users(names: Sequence[str]) -> tuple[UserName, ...]:
    """Read the users whose claims a site takes, each once and in order, whatever was sent."""
    if len(names) > USERS_MAX:
        raise SpecError(f"users are {len(names)}: allowed are at most {USERS_MAX}")
    return tuple(sorted({UserName(checks.printable("users", name)) for name in names}))


def _mark(mark: pb.Mark) -> Watermark:
    for name, value in (("chain", mark.chain), ("seal", mark.seal)):
        if len(value) > WATERMARK_BYTES_MAX:
            raise SpecError(
                f"mark.{name} has {len(value)} bytes: allowed are {WATERMARK_BYTES_MAX}"
            )
    return Watermark(
        epoch=checks.count("mark.epoch", mark.epoch),
        seq=checks.count("mark.seq", mark.seq),
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
            epoch=checks.count("armed.epoch", report.armed.epoch),
            counter=checks.count("armed.counter", report.armed.counter),
        )
    if phase is ClaimPhase.ARMED and armed is None:
        raise SpecError(f"claim {report.claim!r} is armed without a number")
    passed_at = checks.instant("passed_at", report.passed_at)
    if phase is ClaimPhase.PASSED and passed_at <= 0:
        raise SpecError(f"passed_at = {passed_at} of claim {report.claim!r}: its instant is needed")
    return ClaimNews(
        claim=checks.claim(report.claim),
        phase=phase,
        nonce=checks.text("nonce", report.nonce),
        address=checks.printable("address", report.address),
        hosts=tuple(
            (checks.printable("hosts", host.name), host.processors)
            for host in report.hosts[:HOSTS_MAX]
        ),
        armed=armed,
        passed_at=passed_at if passed_at > 0 else None,
        end=_end(report.end) if phase is ClaimPhase.GONE else None,
        batch_job=checks.text("batch_job", report.batch_job),
    )


_TOLD_ENDS = {str(kind): kind for kind in EndKind if kind is not EndKind.FENCED}


def _end(end: pb.End) -> ClaimEnd:
    kind = _TOLD_ENDS.get(end.kind)
    if kind is None:
        raise SpecError(f"end.kind = {end.kind[:40]!r}: allowed are {', '.join(_TOLD_ENDS)}")
    ended_at = checks.instant("end.ended_at", end.ended_at)
    return ClaimEnd(
        kind=kind,
        reason=end.reason[:REASON_MAX],
        statuses=tuple(end.statuses[:STATUSES_MAX]),
        ended_at=ended_at if ended_at > 0 else None,
        cpu_s=checks.amount("end.cpu_s", end.cpu_s) or None,
        memory_bytes=min(end.memory_bytes, BYTES_MAX) or None,
    )


def _paths_news(message: pb.FromAgent) -> PathsReport:
    report = message.paths
    return PathsReport(claim=checks.claim(report.claim), problem=report.problem[:REASON_MAX])


def _progress_news(message: pb.FromAgent) -> Progress:
    report = message.progress
    work = report.work
    if not 0 <= work <= WORK_MAX:
        raise SpecError(f"work = {work} of claim {report.claim!r}: allowed is 0 to {WORK_MAX:g}")
    return Progress(
        claim=checks.claim(report.claim),
        cycle=checks.count("cycle", report.cycle),
        work=work,
        is_told=report.is_told,
        can_pace=report.can_pace,
    )


def _site_news(message: pb.FromAgent) -> SiteFigures:
    report = message.site
    return SiteFigures(
        idle=checks.count("idle", report.idle, PROCESSORS_MAX),
        through=checks.count("through", report.through),
        processors=checks.count("processors", report.processors, PROCESSORS_MAX),
        local_processors=checks.count("local_processors", report.local_processors, PROCESSORS_MAX),
        queued_jobs=report.queued_jobs,
        trouble=report.trouble[:REASON_MAX],
    )


def _transfer_news(message: pb.FromAgent) -> TransferNews | CopyNews | None:
    report = message.transfer
    if report.is_finished and report.is_failed:
        return None
    if not report.is_finished and not report.is_failed:
        return CopyNews(
            transfer=checks.transfer(report.transfer),
            size_bytes=checks.count("size_bytes", report.size_bytes, BYTES_MAX),
            took_s=checks.amount("took_s", report.took_s),
        )
    return TransferNews(
        transfer=checks.transfer(report.transfer),
        is_finished=report.is_finished,
        size_bytes=checks.count("size_bytes", report.size_bytes, BYTES_MAX),
        took_s=checks.amount("took_s", report.took_s),
        reason=report.reason[:REASON_MAX],
        at=checks.site(report.at) if report.at else None,
    )


def _file_news(message: pb.FromAgent) -> FileNews:
    report = message.file
    if not report.file:
        raise SpecError("file = '': a logical name is needed")
    return FileNews(
        file=FileName(checks.text("file", report.file, 4096)),
        size_bytes=checks.count("size_bytes", report.size_bytes, BYTES_MAX),
        checksum=checks.text("checksum", report.checksum),
        is_removed=report.is_removed,
    )


def _kv_put(message: pb.FromAgent) -> KvPut:
    put = message.kv_put
    return KvPut(claim=checks.claim(put.claim), request=put.request, name=put.name, value=put.value)


def _kv_get(message: pb.FromAgent) -> KvGet:
    get = message.kv_get
    return KvGet(
        claim=checks.claim(get.claim),
        request=get.request,
        name=get.name,
        wait_s=checks.amount("wait_s", get.wait_s),
    )


def _log_part(message: pb.FromAgent) -> LogChunk:
    chunk = message.log
    return LogChunk(
        request=chunk.request,
        offset=chunk.offset,
        data=chunk.data,
        is_over=chunk.is_over,
        error=chunk.error[:REASON_MAX],
    )


def _ping(message: pb.FromAgent) -> Ping:
    ping = message.ping
    return Ping(
        claim=checks.claim(ping.claim), nonce=checks.text("nonce", ping.nonce), sent_at=ping.sent_at
    )


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
