"""Records and instants, and both as JSON."""

from __future__ import annotations

from collections.abc import KeysView, Sequence
from dataclasses import make_dataclass
from datetime import UTC, datetime
from functools import cache
from html import escape
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
            moment = cls.fromtimestamp(seconds, UTC)
        except (OverflowError, ValueError, OSError):
            moment = cls(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
        moment._seconds = float(seconds)
        return moment

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
    Notebooks show its fields in `shown`, and so does `repr`; with none `repr` has all.
    """

    shown: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        if not self.shown:
            return super().__repr__()
        pairs = ((name, getattr(self, name)) for name in self.shown)
        words = [f"{name}={_cell(value)!r}" for name, value in pairs if value or value == 0]
        return f"{type(self).__name__}({', '.join(words)})"

    def _repr_html_(self) -> str:
        """Show it in a notebook, with the records that belong to it below."""
        return "".join(table for rows in ((self,), *self._belongings()) if (table := _html(rows)))

    def _belongings(self) -> tuple[tuple[object, ...], ...]:
        """Return the records and pairs that are shown below this one."""
        return ()

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


class Records(list[R]):
    """Records as a list, which notebooks show as a table."""

    def _repr_html_(self) -> str:
        return _html(self)


def _html(rows: Sequence[object]) -> str:
    """Write records or named pairs of a kind as a table; empty for none."""
    if not rows:
        return ""
    first = rows[0]
    names = (first.shown or first.__struct_fields__) if isinstance(first, Record) else ()
    names = names or getattr(first, "_fields", ())
    head = "".join(f"<th>{escape(name.removesuffix('_at'))}</th>" for name in names)
    lines = [
        "".join(f"<td>{escape(str(_cell(getattr(row, name))))}</td>" for name in names)
        for row in rows
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> object:
    """Shorten a value for people."""
    if isinstance(value, Moment):
        return f"{value:%Y-%m-%d %H:%M:%S} UTC"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return "" if value is None else value


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
