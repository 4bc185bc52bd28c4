"""Codec between starters' JSON lines and events of the claim table.

`koala_agent.starter.messages` declares the lines, and reading by it checks types. Limits are here.
A program can read its claim's secret, and impersonate its starter on the connection or in the
record. So the validation is strict: whatever passes can be stored and sent, and is valid for the
daemon, which ends the session of a whole site over one invalid message.
"""

from __future__ import annotations

from koala.common.protocol import messages
from koala.common.protocol.limits import (
    AMOUNT_MAX,
    HOSTS_MAX,
    INSTANT_MAX,
    PORTS_MAX,
    STATUSES_MAX,
    WORK_MAX,
)
from koala.common.protocol.messages import (
    REPORTED_ENDS,
    ArmNumber,
    ClaimEnd,
    EndKind,
    KvGet,
    KvPut,
    PathsReport,
    Ping,
    PortPath,
    PortsUsed,
    PortUse,
    Progress,
)
from koala.common.protocol.names import ClaimId, is_claim_id
from koala_agent.claims import events as ev
from koala_agent.claims.bundle import build_bundle
from koala_agent.claims.folder import StarterRecord
from koala_agent.starter import messages as starter_messages
from koala_agent.starter.state_machine.barrier import PORT_MAX

Message = dict[str, object]

NONCE_BYTES_MAX = 64


def encode(message: ev.ToStarter) -> Message:
    """Encode a message to a starter."""
    return starter_messages.to_message(_message(message))


def _message(message: ev.ToStarter) -> starter_messages.Message:  # noqa: C901 - a line a kind
    match message:
        case ev.Adopted(leases=leases, clock=clock, boot=boot):
            return starter_messages.AdoptOrder(
                hold_lease_s=leases.hold_lease_s,
                run_lease_s=leases.run_lease_s,
                kill_s=leases.kill_s,
                clock=None if clock is None else _clock_sample(clock, boot),
            )
        case ev.Dismissed(reason=reason):
            return starter_messages.DismissOrder(reason=reason)
        case ev.EndNoted():
            return starter_messages.EndAcknowledged()
        case messages.TryPaths(label=label, address=address, listens=listens, limit_s=limit_s):
            targets = tuple(
                (t.label, t.address, t.port, t.claim, t.may_fail) for t in message.targets
            )
            return starter_messages.PathsOrder(
                label=label,
                address=address,
                listens=tuple(listens),
                targets=targets,
                limit_s=limit_s,
            )
        case messages.Arm(claim=claim, number=number, peers=peers):
            return starter_messages.ArmOrder(
                number=(number.epoch, number.counter),
                release_at=message.release_at,
                late_s=message.late_s,
                bundle=build_bundle(claim, peers, message.ports),
            )
        case messages.Release(number=number, release_at=release_at):
            armed = (number.epoch, number.counter)
            return starter_messages.ReleaseOrder(number=armed, release_at=release_at)
        case messages.Resize(claim=claim, number=revision, peers=peers, leave_s=leave_s):
            return starter_messages.ResizeOrder(
                number=revision, bundle=build_bundle(claim, peers), leave_s=leave_s
            )
        case messages.Pace(share=share):
            return starter_messages.PaceOrder(share=share)
        case messages.Stop():
            return starter_messages.StopOrder()
        case messages.Pong(sent_at=sent_at, now=now):
            return starter_messages.PingAnswered(sent_at=sent_at, now=now)
        case messages.KvAnswer(request=request, ok=ok, value=value, error=error):
            return starter_messages.RequestAnswered(
                request=request, ok=ok, value=value, error=error
            )


def _clock_sample(clock: tuple[float, float, float], boot: str) -> Message:
    at, half_s, offset_s = clock
    sample = starter_messages.ClockSample(boot=boot, at=at, half_s=half_s, offset_s=offset_s)
    return starter_messages.to_json(sample)


def decode(claim: ClaimId, nonce: str, message: Message) -> ev.Event:
    """Decode a starter's message. Raises ValueError with what is wrong and what is allowed."""
    match message.get("kind"):
        case starter_messages.ArmAnswered.KIND:
            armed = starter_messages.read(starter_messages.ArmAnswered, message)
            return ev.StarterArmed(claim=claim, nonce=nonce, number=_arm_number(armed.number))
        case starter_messages.PassReported.KIND:
            passed = starter_messages.read(starter_messages.PassReported, message)
            passed_at = _passed_at(passed.passed_at)
            return ev.StarterPassed(claim=claim, nonce=nonce, passed_at=passed_at)
        case starter_messages.EndReported.KIND:
            ended = starter_messages.read(starter_messages.EndReported, message)
            return ev.StarterEnded(claim=claim, nonce=nonce, end=_end(ended.end))
        case _:
            return ev.StarterSaid(nonce=nonce, message=_for_daemon(claim, nonce, message))


def _for_daemon(
    claim: ClaimId, nonce: str, message: Message
) -> Ping | PathsReport | PortsUsed | Progress | KvPut | KvGet:
    """Decode a message that the daemon gets. Raises ValueError."""
    match message.get("kind"):
        case starter_messages.PingSent.KIND:
            ping = starter_messages.read(starter_messages.PingSent, message)
            sent_at = _bounded("sent_at", ping.sent_at, least=-AMOUNT_MAX)
            return Ping(claim=claim, nonce=nonce, sent_at=sent_at)
        case starter_messages.PathsTried.KIND:
            tried = starter_messages.read(starter_messages.PathsTried, message)
            reached = tuple(
                [(ClaimId(name), _bounded("a round trip", trip)) for name, trip in tried.reached]
            )
            return PathsReport(
                claim=claim,
                problem=_text("problem", tried.problem, most=2000),
                reached=reached,
                ports=tuple(map(_port_path, tried.ports[:PORTS_MAX])),
            )
        case starter_messages.PortsCounted.KIND:
            counted = starter_messages.read(starter_messages.PortsCounted, message)
            return PortsUsed(claim=claim, ports=tuple(map(_port_use, counted.ports[:PORTS_MAX])))
        case starter_messages.ProgressReported.KIND:
            report = starter_messages.read(starter_messages.ProgressReported, message)
            return Progress(
                claim=claim,
                cycle=_whole("cycle", report.cycle),
                work=_bounded("work", report.work, most=WORK_MAX),
                is_told=report.is_told,
                can_pace=report.can_pace,
            )
        case starter_messages.ValuePut.KIND:
            put = starter_messages.read(starter_messages.ValuePut, message)
            return KvPut(
                claim=claim,
                request=_whole("request", put.request),
                name=_text("name", put.name, most=256),
                value=_text("value", put.value, most=4096),
            )
        case starter_messages.ValueAsked.KIND:
            asked = starter_messages.read(starter_messages.ValueAsked, message)
            return KvGet(
                claim=claim,
                request=_whole("request", asked.request),
                name=_text("name", asked.name, most=256),
                wait_s=_bounded("wait_s", asked.wait_s),
            )
        case kind:
            raise ValueError(f"a message of kind {str(kind)[:40]!r}")


def _port_path(tried: tuple[str, int, float, str]) -> PortPath:
    """Check the result of one path to a port. Raises ValueError."""
    owner, port, rtt_s, problem = tried
    if not is_claim_id(owner) or not 1 <= port <= PORT_MAX:
        raise ValueError(f"{owner[:80]!r}, port {port} (expected a claim and 1 to {PORT_MAX})")
    rtt_s = _bounded("rtt_s", rtt_s)
    return PortPath(
        claim=ClaimId(owner), port=port, rtt_s=rtt_s, problem=_text("problem", problem, most=2000)
    )


def _port_use(counted: tuple[str, str, int, int, float, float, int, str]) -> PortUse:
    """Check the use of one port. Raises ValueError."""
    name, owner, connections, size_bytes, busy_s, rtt_s, refused, refusal = counted
    if not is_claim_id(owner):
        raise ValueError(f"{owner[:80]!r} is not a claim")
    return PortUse(
        name=_text("name", name, most=64),
        claim=ClaimId(owner),
        connections=_whole("connections", connections),
        size_bytes=_whole("size_bytes", size_bytes),
        busy_s=_bounded("busy_s", busy_s),
        rtt_s=_bounded("rtt_s", rtt_s),
        refused=_whole("refused", refused),
        refusal=_text("refusal", refusal, most=2000),
    )


def checked_in(message: Message, address: str = "") -> ev.CheckedIn:
    """Decode a hello that came from this address. Raises ValueError."""
    if message.get("kind") != starter_messages.Hello.KIND:
        raise ValueError(f"{str(message.get('kind'))[:40]!r} instead of a hello")
    hello = starter_messages.read(starter_messages.Hello, message)
    if not is_claim_id(hello.claim):
        raise ValueError(f"{hello.claim[:80]!r} is not a claim")
    return ev.CheckedIn(
        claim=ClaimId(hello.claim),
        nonce=_nonce(hello.nonce),
        address=address,
        hosts=_hosts(hello.hosts),
        began_at=_bounded("began_at", hello.began_at or 0.0, most=INSTANT_MAX) or None,
        armed=None if hello.armed is None else _arm_number(hello.armed),
        passed_at=None if hello.passed_at is None else _passed_at(hello.passed_at),
        end=None if hello.end is None else _end(hello.end),
    )


def record_of(passed: Message | None, ended: Message | None) -> StarterRecord | None:
    """Decode a starter's two record files; None for unreadable ones."""
    try:
        pass_ = (
            None if passed is None else starter_messages.read(starter_messages.PassRecord, passed)
        )
        end = None if ended is None else starter_messages.read(starter_messages.EndRecord, ended)
        if pass_ is not None and end is not None and pass_.nonce != end.nonce:
            end = None  # of a second start by the batch system, which never passed
        written = pass_ or end
        if written is None:
            return None
        return StarterRecord(
            nonce=_nonce(written.nonce),
            began_at=None if end is None else _optional("began_at", end.began_at, most=INSTANT_MAX),
            passed_at=None if pass_ is None else _passed_at(pass_.passed_at),
            end=None if end is None else _end(end.end),
        )
    except ValueError:
        return None


def _end(reported: Message) -> ClaimEnd:
    """Decode an end as starters report it. Raises ValueError that names what is wrong."""
    end = starter_messages.read(starter_messages.End, reported)
    if len(end.statuses) > STATUSES_MAX or not all(-256 < status < 256 for status in end.statuses):
        raise ValueError(
            f"statuses = {str(end.statuses)[:200]} (expected exit statuses or signals)"
        )
    return ClaimEnd(
        kind=_end_kind(end.kind),
        reason=_utf8(end.reason[:2000]),
        statuses=end.statuses,
        ended_at=_optional("ended_at", end.ended_at, most=INSTANT_MAX),
        cpu_s=_optional("cpu_s", end.cpu_s),
        memory_bytes=None if end.memory_bytes is None else _whole("memory_bytes", end.memory_bytes),
        forwarded_bytes=None
        if end.forwarded_bytes is None
        else _whole("forwarded_bytes", end.forwarded_bytes),
    )


def _end_kind(reported: str) -> EndKind:
    """Decode the cause of an end; only the daemon concludes that a claim is fenced."""
    kind = EndKind(reported[:40])
    if kind not in REPORTED_ENDS:
        raise ValueError(f"kind = {kind} (expected one of {', '.join(REPORTED_ENDS)})")
    return kind


def text(message: Message, key: str, *, most: int) -> str:
    """Return a text of a message. Raises ValueError."""
    value = message.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{key} = {str(value)[:40]!r} (expected a string of at most {most} bytes)")  # noqa: TRY004 - whatever comes, one kind
    return _text(key, value, most=most)


def _text(key: str, value: str, *, most: int) -> str:
    """Check a text. Raises ValueError, also for an unpaired surrogate, which neither the store nor
    the wire can hold."""
    if len(value.encode()) > most:
        raise ValueError(f"{key} = {value[:40]!r} (expected a string of at most {most} bytes)")
    return value


def _nonce(value: str) -> str:
    if not value:
        raise ValueError("an empty nonce")
    return _text("nonce", value, most=NONCE_BYTES_MAX)


def _passed_at(value: float) -> float:
    """Check the instant of the pass; 0 on the wire means that it has not passed."""
    passed_at = _bounded("passed_at", value, most=INSTANT_MAX)
    if not passed_at:
        raise ValueError("passed_at = 0 (expected the instant of the pass)")
    return passed_at


def _arm_number(number: tuple[int, int]) -> ArmNumber:
    epoch, counter = (_whole("number", part) for part in number)
    return ArmNumber(epoch=epoch, counter=counter)


def _hosts(hosts: messages.Hosts) -> messages.Hosts:
    """Check the nodes of an allocation: pairs of name and processors."""
    if len(hosts) > HOSTS_MAX:
        raise ValueError(f"hosts = {str(hosts)[:80]!r} (expected up to {HOSTS_MAX} pairs)")
    for name, count in hosts:
        if not 0 < count < 2**31 or not _is_host(name):
            raise ValueError(
                f"{str((name, count))[:80]!r} among hosts (expected [name, processors])"
            )
    return hosts


def _is_host(name: str) -> bool:
    """Check a host name, which becomes a word of files and of command lines."""
    return 0 < len(name) <= 253 and name.isprintable() and name.isascii() and " " not in name


def _optional(key: str, value: float | None, *, most: float = AMOUNT_MAX) -> float | None:
    return None if value is None else _bounded(key, value, most=most)


def _bounded(key: str, value: float, *, least: float = 0.0, most: float = AMOUNT_MAX) -> float:
    if not least <= value <= most:
        allowed = f"a number from {least:g} to {most:g}"
        raise ValueError(f"{key} = {str(value)[:40]} (expected {allowed})")
    return float(value)


def _whole(key: str, value: int) -> int:
    if not 0 <= value <= AMOUNT_MAX:
        raise ValueError(f"{key} = {str(value)[:40]} (expected a whole number up to {AMOUNT_MAX})")
    return value


def _utf8(text: str) -> str:
    """Replace unpaired surrogates, which JSON allows and nothing else can hold."""
    return text.encode("utf-8", "replace").decode()
