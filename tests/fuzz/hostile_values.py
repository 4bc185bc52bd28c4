"""Hostile values, and ways to spoil good ones; every draw comes from the random source given."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

NUMBERS: tuple[int | float, ...] = (
    0, -0.0, 1, -1, 2, 0.5, 1e-300, -1e308, 1e308, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53, 2**62,
    2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30, 10**400, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
TEXTS = (
    "", " ", "a", "koala", "j1/1/0/1", "j1", "delft", "-", "--help", "-rf", "=1+1", "@SUM(A1)",
    "+x", "../../etc/passwd", "/etc/passwd", "..", ".", "a/../b", "a//b", "~root", "$(touch x)",
    "`id`", "; rm -rf .", "|cat", "&& false", "a\nb", "a\r\nSet-Cookie: x", "#$ -q all",
    "#SBATCH --uid=0", "\x1b[31m\x1b]0;t\x07", "\x9b31m", "\u202egpj.exe", "\u2028", "a\tb", "\0",
    "a\0b", "\ud800", "é", "e\u0301", "𝕜", "²", "٣", "\ufeff", "x" * 300, "é" * 200, "%s%n", "{0}",
    "${IFS}", "'", '"', "\\", "\\\\\"'", "<!--", "<a>&lt;", "1e999", "0x10", "1_000", "NaN", "inf",
    "-1", "99999999999999999999", "1;2", "COM1", "LD_PRELOAD", "KOALA_JOB", "null", "true",
)  # fmt: skip
ODD_BYTES = (
    b"\0", b"\xff", b"\x80", b"\n", b"\r\n", b"\x1b[2J", b"(", b")", b"=", b'"', b"\xc0\x80",
    b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"9" * 400, b" " * 300, b"{", b"[", b"}", b"]", b"-1",
)  # fmt: skip


def text(random: Random) -> str:
    """One of the worst, two of them together, or characters from anywhere."""
    kind = random.randrange(8)
    if kind < 5:
        return random.choice(TEXTS)
    if kind < 7:
        return random.choice(TEXTS) + random.choice(TEXTS)
    return "".join(chr(random.randrange(0x300)) for _ in range(random.randrange(12)))


def utf8(random: Random) -> str:
    """The same without halves of surrogate pairs, which protobuf cannot hold."""
    return text(random).encode("utf-8", "replace").decode()


def number(random: Random) -> int | float:
    """Around every bound that a number may have somewhere."""
    found = random.choice(NUMBERS)
    return found + random.choice((-1, 0, 1)) if type(found) is int else found


def json_value(random: Random, depth: int = 3) -> Any:
    """Anything that JSON can say, and what Python's JSON says besides."""
    kind = random.randrange(9 if depth > 0 else 6)
    if kind == 0:
        return random.choice((None, True, False))
    if kind < 3:
        return number(random)
    if kind < 6:
        return text(random)
    if kind < 8:
        return [json_value(random, depth - 1) for _ in range(random.randrange(4))]
    return {text(random): json_value(random, depth - 1) for _ in range(random.randrange(4))}


def spoilt_object(random: Random, good: dict[str, Any]) -> dict[str, Any]:
    """A message with some of its fields replaced, removed, or joined by others."""
    spoilt = dict(good)
    for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
        name = random.choice([*spoilt, "kind", text(random)])
        if random.randrange(5) == 0:
            spoilt.pop(name, None)
        else:
            spoilt[name] = json_value(random)
    return spoilt


def spoilt_line(random: Random, good: dict[str, Any]) -> bytes:
    """The same as a line of JSON; now and then its bytes are spoilt, too, or it is nested deep."""
    match random.randrange(20):
        case 0:
            depth = random.choice((50, 990, 5_000))
            opened, closed = random.choice((("[", "]"), ('{"a":', "}")))
            return (opened * depth + "1" + closed * depth).encode()
        case 1:
            return spoilt_bytes(random, json.dumps(good).encode()).replace(b"\n", b" ")
        case 2:
            return b"9" * random.choice((400, 5_000))
        case _:
            return json.dumps(spoilt_object(random, good)).encode()


def spoilt_bytes(random: Random, good: bytes, pieces: Sequence[bytes] = ODD_BYTES) -> bytes:
    """Bits flipped, parts cut out, doubled, moved, or replaced."""
    spoilt = bytearray(good)
    for _ in range(random.choice((1, 1, 1, 2, 4, 8))):
        at = random.randrange(len(spoilt) + 1)
        to = min(len(spoilt), at + random.choice((0, 1, 1, 2, 8, 64)))
        match random.randrange(6):
            case 0 if at < len(spoilt):
                spoilt[at] ^= 1 << random.randrange(8)
            case 1:
                del spoilt[at:to]
            case 2:
                spoilt[at:at] = spoilt[at:to]
            case 3:
                spoilt[at:to] = random.choice(pieces)
            case 4:
                spoilt[at:at] = random.choice(pieces)
            case _:
                spoilt[at:to] = random.randbytes(to - at)
    return bytes(spoilt)


def spoilt_text(random: Random, good: str, pieces: Sequence[str]) -> str:
    """The same of a text, by words that mean something where it is read."""
    spoilt = good
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(spoilt) + 1)
        to = min(len(spoilt), at + random.choice((0, 0, 1, 3, 20)))
        piece = random.choice(pieces) if random.randrange(3) else text(random)
        spoilt = spoilt[:at] + piece + spoilt[to:]
    return spoilt


UNKNOWN = (
    b"\xf8\x7d\x01",  # field 2015, a number
    b"\xfa\x7d\x03abc",  # a text
    b"\xfb\x7d\xfc\x7d",  # a group, which proto3 has no more
    b"\xfa\x7d\xff\xff\xff\xff\x0f",  # one whose length is 4 GiB
    b"\x00",  # field 0, which nobody may use
)


def sent(random: Random, message: Message) -> bytes:
    """A message as its sender may send it: now and then as one of a later version of ours, merged
    from two, or spoilt."""
    data = message.SerializeToString()
    match random.randrange(12):
        case 0:
            return data + random.choice(UNKNOWN)
        case 1:
            return data + data
        case 2 | 3 | 4:
            return spoilt_bytes(random, data)
        case _:
            return data


def fill(random: Random, message: Message, *, depth: int = 4) -> None:
    """Hostile values in some fields of a message, whatever it is."""
    for field in message.DESCRIPTOR.fields:
        if random.randrange(3) == 0:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for _ in range(random.randrange(3)):
                getattr(message, field.name)[utf8(random)] = utf8(random)
        elif field.is_repeated:
            _fill_repeated(random, message, field, depth)
        elif field.message_type is None:
            setattr(message, field.name, _scalar(random, field))
        elif depth > 0:
            getattr(message, field.name).SetInParent()
            fill(random, getattr(message, field.name), depth=depth - 1)


def _fill_repeated(random: Random, message: Message, field: Any, depth: int) -> None:
    values = getattr(message, field.name)
    for _ in range(random.choice((0, 1, 2, 5) if random.randrange(50) else (1_000,))):
        if field.message_type is None:
            values.append(_scalar(random, field))
        elif depth > 0:
            fill(random, values.add(), depth=depth - 1)


_BITS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (-(2**31), 2**31 - 1),
}


def _scalar(random: Random, field: Any) -> Any:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_ENUM and random.randrange(4):
        return random.randrange(8)
    if kind in _BITS:
        low, high = _BITS[kind]
        found = number(random)
        whole = int(found) if abs(found) < 2**65 else high  # nor is a NaN
        return min(high, max(low, whole))
    if kind in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        found = number(random)
        return float("inf") if found > 1e308 else float(found)
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return random.randrange(2) == 0
    if field.type == FieldDescriptor.TYPE_BYTES:
        return random.randbytes(random.choice((0, 1, 16, 64, 200)))
    return utf8(random)
