"""Codec between starters' JSON lines and events of the claim table.

A program can read its claim's secret, and impersonate its starter on the connection or in the
record. So the validation is strict: whatever passes can be stored and sent, and is valid for the
daemon, which ends the session of a whole site over one invalid message.
"""

from __future__ import annotations

from koala.protocol import messages
from koala.protocol.limits import AMOUNT_MAX, HOSTS_MAX, INSTANT_MAX, STATUSES_MAX, WORK_MAX
from koala.protocol.messages import (
    REPORTED_ENDS,
    ArmNumber,
    ClaimEnd,
    EndKind,
    KvGet,
    KvPut,
    PathsReport,
    Ping,
    Progress,
)
from koala.protocol.names import ClaimId, is_claim_id
from koala_agent.claims.bundle import build_bundle
from koala_agent.claims.events import (
    Adopted,
    CheckedIn,
    Dismissed,
    EndNoted,
    Event,
    StarterArmed,
    StarterEnded,
    StarterPassed,
    StarterSaid,
    ToStarter,
)
from koala_agent.claims.folder import StarterRecord

Message = dict[str, object]

NONCE_BYTES_MAX = 64


def encode(message: ToStarter) -> Message:  # noqa: C901 - a line a kind
    """Encode a message to a starter."""
    match message:
        case Adopted(leases=leases, clock=clock, boot=boot):
            adopted: Message = {
                "kind": "adopted",
                "hold_lease_s": leases.hold_lease_s,
                "run_lease_s": leases.run_lease_s,
                "kill_s": leases.kill_s,
            }
            if clock is not None:
                at, half_s, offset_s = clock
                known = {"boot": boot, "at": at, "half_s": half_s, "offset_s": offset_s}
                adopted["clock"] = known
            return adopted
        case Dismissed(reason=reason):
            return {"kind": "dismissed", "reason": reason}
        case EndNoted():
            return {"kind": "noted"}
        case messages.TryPaths(label=label, address=address, listens=listens, limit_s=limit_s):
            targets = [[t.label, t.address, t.port, t.claim] for t in message.targets]
            return {
                "kind": "paths",
                "label": label,
                "address": address,
                "listens": listens,
                "targets": targets,
                "limit_s": limit_s,
            }
        case messages.Arm(claim=claim, number=number, peers=peers):
            return {
                "kind": "arm",
                "number": [number.epoch, number.counter],
                "release_at": message.release_at,
                "late_s": message.late_s,
                "bundle": build_bundle(claim, peers),
            }
        case messages.Release(number=number, release_at=release_at):
            number_said = [number.epoch, number.counter]
            return {"kind": "release", "number": number_said, "release_at": release_at}
        case messages.Pace(share=share):
            return {"kind": "pace", "share": share}
        case messages.Stop():
            return {"kind": "stop"}
        case messages.Pong(sent_at=sent_at, now=now):
            return {"kind": "pong", "sent_at": sent_at, "now": now}
        case messages.KvAnswer(request=request, ok=ok, value=value, error=error):
            return {"kind": "answer", "request": request, "ok": ok, "value": value, "error": error}


def decode(claim: ClaimId, nonce: str, message: Message) -> Event:
    """Decode a message of a starter. Raises ValueError that names what is wrong and what is
    allowed."""
    kind = message.get("kind")
    match kind:
        case "armed":
            number = _arm_number(message.get("number"))
            return StarterArmed(claim=claim, nonce=nonce, number=number)
        case "passed":
            return StarterPassed(claim=claim, nonce=nonce, passed_at=_passed_at(message))
        case "ended":
            return StarterEnded(claim=claim, nonce=nonce, end=end_of(message.get("end")))
        case "ping" | "tried" | "progress" | "put" | "get":
            said = _for_daemon(claim, nonce, kind, message)
            return StarterSaid(nonce=nonce, message=said)
        case _:
            raise ValueError(f"a message of kind {str(kind)[:40]!r}")


def _for_daemon(
    claim: ClaimId, nonce: str, kind: str, message: Message
) -> Ping | PathsReport | Progress | KvPut | KvGet:
    """Decode a message that the daemon gets."""
    if kind == "ping":
        sent_at = _number(message, "sent_at", least=-AMOUNT_MAX)
        return Ping(claim=claim, nonce=nonce, sent_at=sent_at)
    if kind == "tried":
        return PathsReport(claim=claim, problem=text(message, "problem", most=2000))
    if kind == "progress":
        return Progress(
            claim=claim,
            cycle=_whole(message, "cycle"),
            work=_number(message, "work", most=WORK_MAX),
            is_told=message.get("is_told") is True,
            can_pace=message.get("can_pace") is True,
        )
    request, name = _whole(message, "request"), text(message, "name", most=256)
    if kind == "put":
        value = text(message, "value", most=4096)
        return KvPut(claim=claim, request=request, name=name, value=value)
    return KvGet(claim=claim, request=request, name=name, wait_s=_number(message, "wait_s"))


def checked_in(message: Message) -> CheckedIn:
    """Decode a hello. Raises ValueError."""
    if message.get("kind") != "hello":
        raise ValueError(f"{str(message.get('kind'))[:40]!r} instead of a hello")
    claim = text(message, "claim", most=256)
    if not is_claim_id(claim):
        raise ValueError(f"{claim!r} is no claim")
    armed, passed_at, end = (message.get(name) for name in ("armed", "passed_at", "end"))
    return CheckedIn(
        claim=ClaimId(claim),
        nonce=_nonce(message),
        hosts=_hosts(message.get("hosts", [])),
        armed=None if armed is None else _arm_number(armed),
        passed_at=None if passed_at is None else _passed_at(message),
        end=None if end is None else end_of(end),
    )


def record_of(passed: Message | None, ended: Message | None) -> StarterRecord | None:
    """Decode a starter's two record files; None for unreadable ones."""
    if passed is not None and ended is not None and passed.get("nonce") != ended.get("nonce"):
        ended = None  # of a second start by the batch system, which never passed
    written = passed or ended
    if written is None:
        return None
    try:
        return StarterRecord(
            nonce=_nonce(written),
            passed_at=None if passed is None else _passed_at(passed),
            end=None if ended is None else end_of(ended.get("end")),
        )
    except ValueError:
        return None


def end_of(told: object) -> ClaimEnd:
    """Decode an end as starters report it. Raises ValueError that names what is wrong."""
    if not isinstance(told, dict):
        raise ValueError(f"{str(told)[:80]} is no end")  # noqa: TRY004 - whatever comes, one kind
    statuses = told.get("statuses", [])
    if (
        not isinstance(statuses, list)
        or len(statuses) > STATUSES_MAX
        or not all(type(status) is int and -256 < status < 256 for status in statuses)
    ):
        raise ValueError(f"statuses = {str(statuses)[:200]}: allowed are exit statuses and signals")
    is_told = told.get("ended_at") is not None
    return ClaimEnd(
        kind=_end_kind(told.get("kind")),
        reason=_utf8(str(told.get("reason", ""))[:2000]),
        statuses=tuple(statuses),
        ended_at=_number(told, "ended_at", most=INSTANT_MAX) if is_told else None,
        cpu_s=_number(told, "cpu_s") if "cpu_s" in told else None,
        memory_bytes=int(_number(told, "memory_bytes")) if "memory_bytes" in told else None,
    )


def _end_kind(told: object) -> EndKind:
    """Decode the cause of an end; only the daemon concludes that a claim is fenced."""
    kind = EndKind(str(told)[:40])
    if kind not in REPORTED_ENDS:
        raise ValueError(f"kind = {kind}: allowed are {', '.join(REPORTED_ENDS)}")
    return kind


def text(message: Message, key: str, *, most: int) -> str:
    """Return a text of a message. Raises ValueError, also for an unpaired surrogate, which neither
    the store nor the wire can hold."""
    value = message.get(key)
    if not isinstance(value, str) or len(value.encode()) > most:
        raise ValueError(f"{key} = {str(value)[:40]!r}: allowed is a text of up to {most} bytes")
    return value


def _nonce(message: Message) -> str:
    nonce = text(message, "nonce", most=NONCE_BYTES_MAX)
    if not nonce:
        raise ValueError("an empty nonce")
    return nonce


def _passed_at(message: Message) -> float:
    """Return the instant of the pass; 0 on the wire means that it has not passed."""
    passed_at = _number(message, "passed_at", most=INSTANT_MAX)
    if not passed_at:
        raise ValueError("passed_at = 0: allowed is the instant of the pass")
    return passed_at


def _arm_number(value: object) -> ArmNumber:
    match value:
        case [int() as epoch, int() as counter] if min(epoch, counter) >= 0:
            if max(epoch, counter) <= AMOUNT_MAX and bool not in (type(epoch), type(counter)):
                return ArmNumber(epoch=epoch, counter=counter)
    raise ValueError(f"number = {str(value)[:80]}: allowed is [epoch, counter]")


def _hosts(value: object) -> messages.Hosts:
    """Decode the machines of an allocation: pairs of name and processors."""
    if not isinstance(value, list) or len(value) > HOSTS_MAX:
        raise ValueError(f"hosts = {str(value)[:80]!r}: allowed are up to {HOSTS_MAX} pairs")
    hosts = []
    for pair in value:
        match pair:
            case [str() as name, int() as count] if 0 < count < 2**31 and _is_host(name):
                hosts.append((name, int(count)))
            case _:
                raise ValueError(f"{str(pair)[:80]!r} among hosts: allowed is [name, processors]")
    return tuple(hosts)


def _is_host(name: str) -> bool:
    """Check a host name, which becomes a word of files and of command lines."""
    return 0 < len(name) <= 253 and name.isprintable() and name.isascii() and " " not in name


def _number(message: Message, key: str, *, least: float = 0.0, most: float = AMOUNT_MAX) -> float:
    value = message.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        allowed = f"a number from {least:g} to {most:g}"
        raise ValueError(f"{key} = {str(value)[:40]}: allowed is {allowed}")
    return float(value)


def _whole(message: Message, key: str) -> int:
    value = message.get(key)
    if type(value) is not int or not 0 <= value <= AMOUNT_MAX:
        raise ValueError(f"{key} = {str(value)[:40]}: allowed is a whole number")
    return value


def _utf8(text: str) -> str:
    """Replace unpaired surrogates, which JSON allows and nothing else can hold."""
    return text.encode("utf-8", "replace").decode()
