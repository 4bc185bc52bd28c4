"""Keys of a terminal: its mode while they are read, and their names."""

from __future__ import annotations

import os
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress

SEQUENCES = {
    b"\x1b[A": "up", b"\x1bOA": "up",
    b"\x1b[B": "down", b"\x1bOB": "down",
    b"\x1b[C": "right", b"\x1bOC": "right",
    b"\x1b[D": "left", b"\x1bOD": "left",
    b"\x1b[H": "home", b"\x1bOH": "home", b"\x1b[1~": "home",
    b"\x1b[F": "end", b"\x1bOF": "end", b"\x1b[4~": "end",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\r": "enter", b"\n": "enter",
    b"\x7f": "backspace", b"\x08": "backspace",
    b"\x1b": "escape",
}  # fmt: skip
_LONGEST_FIRST = sorted(SEQUENCES, key=len, reverse=True)


def read_keys(data: bytes) -> list[str]:
    """Split bytes of a terminal into keys: a name of `SEQUENCES`, or the character itself.

    Unknown sequences and control characters are dropped. A sequence comes in one piece, so a lone
    escape character is the key.
    """
    keys: list[str] = []
    while data:
        found = next((sequence for sequence in _LONGEST_FIRST if data.startswith(sequence)), None)
        if found == b"\x1b" and data[1:2] in (b"[", b"O"):
            data = _after_sequence(data)
        elif found is not None:
            keys.append(SEQUENCES[found])
            data = data[len(found) :]
        else:
            character = _first_character(data)
            keys += [character] if character.isprintable() and character else []
            data = data[len(character.encode()) or 1 :]
    return keys


def _first_character(data: bytes) -> str:
    """Decode the first character; empty for a byte that begins none."""
    for size in range(1, 5):
        with suppress(UnicodeDecodeError):
            return data[:size].decode()
    return ""


def _after_sequence(data: bytes) -> bytes:
    """Skip an unknown escape sequence, which ends with a letter or `~`."""
    end = next((at for at, one in enumerate(data[2:], 2) if 0x40 <= one <= 0x7E), len(data) - 1)
    return data[end + 1 :]


@contextmanager
def key_mode(descriptor: int) -> Iterator[None]:
    """Let a terminal give each key at once, unechoed, without a key that stops the process."""
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        mode = termios.tcgetattr(descriptor)
        mode[6][termios.VSUSP] = b"\x00"
        termios.tcsetattr(descriptor, termios.TCSADRAIN, mode)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def waiting_bytes(descriptor: int) -> bytes:
    """Read what was typed; empty at the end of the terminal."""
    try:
        return os.read(descriptor, 4096)
    except OSError:  # the terminal was closed
        return b""
