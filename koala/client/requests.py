"""Messages to the daemon. An argument that none can hold is an error which names it.

pb.ResizeRequest(job="j1", total=10**30)     ValueError: total = 1000... (expected ...)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from koala.common.wire.v1 import koala_pb2

__all__ = ["pb"]

T = TypeVar("T")
OF_CALLERS = ("Request", "Submission")
"""Ends of the names of messages that are made of a caller's arguments."""
EXPECTED = {
    int: "a whole number of at most 64 bits",
    float: "a number",
    bool: "True or False",
    str: "text in Unicode",
}
"""What a field with such a default takes; others take several texts."""


def _made(kind: Callable[..., T], **arguments: object) -> T:
    """Make a message. Raises ValueError and TypeError, which name the wrong argument."""
    try:
        return kind(**arguments)
    except (TypeError, ValueError, OverflowError) as error:
        wrong = TypeError if isinstance(error, TypeError) else ValueError
        for name, value in arguments.items():
            try:
                kind(**{name: value})
            except type(error):
                expected = EXPECTED.get(type(getattr(kind(), name)), "several texts")
                raise wrong(f"{name} = {value!r} (expected {expected})") from None
        raise


class _Messages:
    """The generated module."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        kind = getattr(koala_pb2, name)
        return partial(_made, kind) if name.endswith(OF_CALLERS) else kind


if TYPE_CHECKING:
    from koala.common.wire.v1 import koala_pb2 as pb
else:
    pb = _Messages()
