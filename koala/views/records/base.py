"""Records and instants, and both as JSON."""

from __future__ import annotations

from collections.abc import KeysView
from dataclasses import make_dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, ClassVar, TypeVar, overload

import msgspec

R = TypeVar("R", bound="Record")


class Moment(datetime):
    """Instant of the daemon's clock: an aware datetime in UTC, in JSON a number of seconds.

    `float(moment)` is that number, exactly as it was given; an instant beyond the calendar is the
    last one of it.
    """

    __slots__ = ("_seconds",)
    _seconds: float

    @classmethod
    def of(cls, seconds: float) -> Moment:
        """Make the instant that is so many seconds after 1970."""
        try:
            made = cls.fromtimestamp(seconds, UTC)
        except (OverflowError, ValueError, OSError):
            made = cls(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
        made._seconds = float(seconds)
        return made

    def __float__(self) -> float:
        try:
            return self._seconds
        except AttributeError:  # made by arithmetic, or from a copy
            return self.timestamp()


@overload
def moment_of(seconds: float) -> Moment: ...
@overload
def moment_of(seconds: None) -> None: ...
@overload
def moment_of(seconds: float | None) -> Moment | None: ...
def moment_of(seconds: float | None) -> Moment | None:
    """Make an instant of seconds; None stays None."""
    return None if seconds is None else Moment.of(seconds)


@overload
def seconds_of(moment: Moment) -> float: ...
@overload
def seconds_of(moment: None) -> None: ...
@overload
def seconds_of(moment: Moment | None) -> float | None: ...
def seconds_of(moment: Moment | None) -> float | None:
    """Return the seconds of an instant; None stays None."""
    return None if moment is None else float(moment)


class _FieldsOfDataclass:
    """The fields of a record as those of a dataclass: so pandas makes a table of records."""

    def __get__(self, _: object, kind: type[Record]) -> dict[str, Any]:
        return _fields_of(kind)


@cache
def _fields_of(kind: type[Record]) -> dict[str, Any]:
    fields: dict[str, Any] = vars(make_dataclass(kind.__name__, kind.__struct_fields__))[
        "__dataclass_fields__"
    ]
    return fields


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One document, or a part of one. Its attributes have the names of the JSON, and its instants
    are datetimes.

    It cannot be iterated over: pandas takes what iterates for a row of values, not for a dataclass.
    """

    @property
    def document(self) -> dict[str, Any]:
        """The document as plain values, as `--json` prints it: instants are seconds."""
        plain: dict[str, Any] = msgspec.json.decode(encode(self))
        return plain

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - a value of JSON
        return self.document[name]

    __iter__: ClassVar[None] = None  # nor by numbers from 0
    __dataclass_fields__: ClassVar[Any] = _FieldsOfDataclass()

    def keys(self) -> KeysView[str]:
        """Return the names of the document, which `dict(record)` asks for."""
        return self.document.keys()


def _plain(value: object) -> object:
    assert isinstance(value, Moment)
    return float(value)


def _moment(kind: type, value: object) -> object:
    assert kind is Moment
    if not isinstance(value, (int, float)):
        raise ValueError(f"Expected `float`, got `{type(value).__name__}`")  # noqa: TRY004 - msgspec adds the path to it
    return Moment.of(value)


_encoder = msgspec.json.Encoder(enc_hook=_plain)


def encode(record: Record) -> bytes:
    """Encode a record as JSON."""
    return _encoder.encode(record)


def decoder(kind: type[R]) -> msgspec.json.Decoder[R]:
    """Make a decoder of JSON as records. Names that they do not know are left out."""
    return msgspec.json.Decoder(kind, dec_hook=_moment)
