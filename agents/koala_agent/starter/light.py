"""`signal`, `socket` and JSON without what the starter does not use of them.

The public modules load regular expressions, enumerations and selectors, which is half of the time
that a starter takes to check in. These are what they are made of, in each CPython from 3.6 to 3.14.
"""

from __future__ import annotations

from _json import (
    encode_basestring_ascii,
    make_encoder,
    make_scanner,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as signal  # noqa: PLC0414 - others import it from here
    import socket as socket  # noqa: PLC0414 - see above
else:
    import _signal as signal  # noqa: F401 - see above
    import _socket as socket


class _Reading:
    """Settings of the scanner: those of `json.loads`."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_int, parse_float, parse_constant = int, float, float


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


_scan = make_scanner(_Reading)  # type: ignore[arg-type] # as it is used there
_encode = make_encoder(
    *(None, _refuse, encode_basestring_ascii, None, ": ", ", "),
    *(False, False, True),  # no sorted keys, none left out; NaN and infinities
)


def loads(content: bytes) -> object:
    """Read JSON in UTF-8. Raises ValueError, and RecursionError for one that is nested too deep."""
    text = content.decode("utf-8", "surrogatepass").strip(" \t\n\r")
    try:
        value, end = _scan(text, 0)
    except StopIteration as error:
        raise ValueError(f"no JSON from letter {error}")  # noqa: B904 - its text is all of it
    if end != len(text):
        raise ValueError(f"more than one JSON value, from letter {end}")
    return value


def dumps(value: object) -> bytes:
    """Write JSON, in ASCII and in one line."""
    return "".join(_encode(value, 0)).encode()


def accept(listener: socket.socket) -> socket.socket:
    """Accept a connection. Raises OSError."""
    descriptor, _address = listener._accept()  # type: ignore[attr-defined] # noqa: SLF001 - see above
    return socket.socket(listener.family, listener.type, fileno=descriptor)
