"""Parsing and logging for all starter modules, `dataclasses` without its 10 ms import, and what
Python 3.6 lacks."""

from __future__ import annotations

import math
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - others import it from here
    from typing import TypeAlias, TypeVar

    Record = TypeVar("Record")
    _Reader: TypeAlias = "tuple[str, bool, Callable[[object], object]]"
    """A field's name, True if it may be None, and its parser."""
else:

    def dataclass(**_options: object) -> object:
        """Decorate a class as `dataclasses` would, as far as the starter needs it; that import
        takes 10 ms.
        """

        def decorate(cls: type) -> type:
            names = tuple(getattr(cls, "__annotations__", ()))
            defaults = {name: getattr(cls, name) for name in names if hasattr(cls, name)}
            blank = {name: defaults.get(name) for name in names}  # keeps the order of the fields
            allowed, needed = frozenset(names), frozenset(names) - frozenset(defaults)

            def init(self: object, **given: object) -> None:
                if not needed <= given.keys() <= allowed:
                    wrong = sorted((needed - given.keys()) | (given.keys() - allowed))
                    raise TypeError(f"{cls.__name__}: {wrong} missing or unknown")
                vars(self).update(blank, **given)

            cls.__init__ = init
            cls.__eq__ = lambda self, other: type(self) is type(other) and vars(self) == vars(other)
            cls.__hash__ = None
            cls.__repr__ = lambda self: f"{cls.__name__}({vars(self)})"
            return cls

        return decorate


WHOLE_MAX = 2**63 - 1
PART_BYTES = 8192
CLOCK_BOOTTIME = 7
"""Number of the clock in Linux; `time` names it from Python 3.7 on."""


def boot_now() -> float:
    """Return seconds since the machine started, suspends included."""
    return time.clock_gettime(CLOCK_BOOTTIME)


def to_bytes(text: str) -> bytes:
    """Encode a word of a command or environment as UTF-8, whatever the locale (Python 3.6)."""
    return text.encode("utf-8", "surrogateescape")


def to_exit_code(status: int) -> int:
    """Convert a status of `waitpid`: minus the signal for a process that was ended by one."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def to_shell(command: list[str]) -> str:
    """Quote a command for a shell."""
    import shlex  # noqa: PLC0415 - late: no check-in waits for it

    return " ".join(map(shlex.quote, command))


def read_file(path: str) -> bytes:
    """Read a small file, without the objects of `open`: a starter's memory is a copy of its
    parent's, made page by page as it is used. Raises OSError.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return b"".join(iter(lambda: os.read(descriptor, PART_BYTES), b""))
    finally:
        os.close(descriptor)


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of this to a file. Raises OSError."""
    while content:
        content = content[os.write(descriptor, content) :]


def log(text: str) -> None:
    """Write a line to standard error, which is the batch job's output file.

    On a full disk lines are dropped, and the program goes on.
    """
    try:
        os.write(2, f"{boot_now():.3f} {text}\n".encode("utf-8", "replace"))
    except OSError:
        return


def to_number(message: dict[str, object], key: str) -> float:
    """Parse a number of a message. Raises ValueError for anything that a float cannot hold."""
    try:
        return _to_real(message.get(key))
    except ValueError as error:
        raise ValueError(f"{key} = {error}")  # noqa: B904 - its text is all of it


def to_whole(message: dict[str, object], key: str) -> int:
    """Parse an integer of 64 bits. Raises ValueError."""
    value = to_count(message.get(key))
    if not -WHOLE_MAX <= value <= WHOLE_MAX:
        raise ValueError(f"{key} = {value} (expected an integer of 64 bits)")
    return value


def to_object(value: object) -> dict[str, object]:
    """Parse a JSON object. Raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError(f"{str(value)[:80]!r} is not an object")  # noqa: TRY004 - see above
    return value


def to_list(value: object) -> list[object]:
    """Parse a JSON list. Raises ValueError."""
    if not isinstance(value, list):
        raise ValueError(f"{str(value)[:80]!r} is not a list")  # noqa: TRY004 - see above
    return value


def read_fields(cls: type[Record], given: dict[str, object]) -> Record:
    """Make a record of these fields of a JSON object, by their names and types. Raises ValueError
    that names the field, also for one that is missing and has no default."""
    fields = {}
    for name, is_optional, reader in _readers_of(cls):
        if name in given:
            value = given[name]
            try:
                fields[name] = None if value is None and is_optional else reader(value)
            except ValueError as error:
                raise ValueError(f"{name} = {error}")  # noqa: B904 - its text is all of it
    try:
        return cls(**fields)
    except TypeError as error:
        raise ValueError(str(error))  # noqa: B904 - see above


def _readers_of(cls: type) -> list[_Reader]:
    """Return the readers of a class's fields."""
    readers = _KNOWN.get(cls)
    if readers is not None:
        return readers
    readers = _KNOWN[cls] = []
    for name, kind in cls.__annotations__.items():
        is_optional = kind.endswith(OPTIONAL)
        reader = _PARSERS[kind[: -len(OPTIONAL)] if is_optional else kind]
        readers.append((name, is_optional, reader))
    return readers


def _to_real(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{str(value)[:80]!r} is not a number")  # noqa: TRY004 - whatever comes, one kind
    try:
        is_number = not math.isnan(value)
    except OverflowError:
        is_number = False
    if not is_number:
        raise ValueError(f"{str(value)[:80]} (expected a number that a float can hold)")
    return value


def to_texts(value: object) -> list[str]:
    """Return the items of a JSON list as texts."""
    return [str(text) for text in to_list(value)]


def to_pairs(value: object) -> list[tuple[str, str]]:
    """Return the items of a JSON list as pairs of a name and a text."""
    return [(name, text) for name, text in (to_texts(pair) for pair in to_list(value))]


def to_text(value: object) -> str:
    """Parse a text. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"{str(value)[:80]!r} is not a string")  # noqa: TRY004 - see above
    return value


def to_flag(value: object) -> bool:
    """Parse true or false. Raises ValueError."""
    if not isinstance(value, bool):
        raise ValueError(f"{str(value)[:80]!r} is neither true nor false")  # noqa: TRY004 - see above
    return value


def to_count(value: object) -> int:
    """Parse an integer. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{str(value)[:80]!r} is not a whole number")  # noqa: TRY004 - see above
    return value


def _to_tuple(value: object, *readers: Callable[[object], object]) -> tuple[object, ...]:
    """Parse a JSON list of exactly these parts. Raises ValueError."""
    parts = to_list(value)
    if len(parts) != len(readers):
        raise ValueError(f"{str(value)[:80]!r} does not have {len(readers)} parts")
    return tuple([read(part) for read, part in zip(readers, parts)])


OPTIONAL = " | None"
_KNOWN: dict[type, list[_Reader]] = {}
"""Readers of the fields of classes that were read before."""

_PARSERS: dict[str, Callable[[object], object]] = {
    "str": to_text,
    "bool": to_flag,
    "int": to_count,
    "float": _to_real,
    "dict[str, object]": to_object,
    "tuple[str, ...]": lambda value: tuple(to_texts(value)),
    "tuple[int, ...]": lambda value: tuple(map(to_count, to_list(value))),
    "tuple[int, int]": lambda value: _to_tuple(value, to_count, to_count),
    "tuple[tuple[str, str], ...]": lambda value: tuple(to_pairs(value)),
    "tuple[tuple[str, int], ...]": lambda value: tuple(
        [_to_tuple(pair, to_text, to_count) for pair in to_list(value)]
    ),
    "tuple[tuple[str, float], ...]": lambda value: tuple(
        [_to_tuple(pair, to_text, _to_real) for pair in to_list(value)]
    ),
    "tuple[tuple[str, str, int, str, bool], ...]": lambda value: tuple(
        [_to_tuple(row, to_text, to_text, to_count, to_text, to_flag) for row in to_list(value)]
    ),
    "tuple[tuple[str, int, float, str], ...]": lambda value: tuple(
        [_to_tuple(row, to_text, to_count, _to_real, to_text) for row in to_list(value)]
    ),
    "tuple[tuple[str, str, int, int, float, float, int, str], ...]": lambda value: tuple(
        [
            _to_tuple(row, *[to_text] * 2, *[to_count] * 2, *[_to_real] * 2, to_count, to_text)
            for row in to_list(value)
        ]
    ),
}
"""Parsers by the text of an annotation, without OPTIONAL."""
