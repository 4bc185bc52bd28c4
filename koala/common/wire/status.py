"""Convert Koala's errors to gRPC statuses and back, so that both ends raise the same error tree.

A status carries its error twice: the code and the text for any client, and a JSON document in the
trailing metadata (`koala-error-bin`) from which a Koala client makes the same exception again,
position included.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from math import ceil
from typing import Any

import grpc

from koala.common.wire.v1 import koala_pb2
from koala.errors import (
    ConfigError,
    DamagedError,
    DeniedError,
    DiskError,
    ExhaustedError,
    JournalError,
    KoalaError,
    Lack,
    LocalManagerError,
    Position,
    RejectedError,
    SpecError,
    UnauthenticatedError,
    UnknownJobError,
    UnknownNameError,
    UnknownSiteError,
    UnreachableError,
)

PROTOCOL_KEY = "koala-protocol"
USER_KEY = "koala-user"  # who calls, where plain text is spoken and nothing can prove it
TOKEN_KEY = "authorization"
TOKEN_SCHEME = "Bearer "
ERROR_KEY = "koala-error-bin"
RETRY_KEY = "retry-after-ms"  # beside RESOURCE_EXHAUSTED: when it is worth trying again
MESSAGE_MAX = 4_000  # characters; HTTP/2 headers have a limit of their own
OTHER_MESSAGE_MAX = 200  # of each further mistake

_CODES: tuple[tuple[type[KoalaError], grpc.StatusCode], ...] = (
    (SpecError, grpc.StatusCode.INVALID_ARGUMENT),
    (UnknownJobError, grpc.StatusCode.NOT_FOUND),
    (UnknownSiteError, grpc.StatusCode.NOT_FOUND),
    (ExhaustedError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (UnknownNameError, grpc.StatusCode.NOT_FOUND),
    (UnauthenticatedError, grpc.StatusCode.UNAUTHENTICATED),
    (DeniedError, grpc.StatusCode.PERMISSION_DENIED),
    (RejectedError, grpc.StatusCode.FAILED_PRECONDITION),
    (ConfigError, grpc.StatusCode.FAILED_PRECONDITION),
    (DamagedError, grpc.StatusCode.DATA_LOSS),
    (DiskError, grpc.StatusCode.DATA_LOSS),
    (JournalError, grpc.StatusCode.DATA_LOSS),
    (UnreachableError, grpc.StatusCode.UNAVAILABLE),
    (LocalManagerError, grpc.StatusCode.INTERNAL),
    (KoalaError, grpc.StatusCode.INTERNAL),
)
_KINDS: dict[str, type[KoalaError]] = {kind.__name__: kind for kind, _ in _CODES}
_WORDS: dict[type[KoalaError], str] = {
    SpecError: "spec",
    RejectedError: "rejected",
    ExhaustedError: "exhausted",
}

_NEAREST: dict[grpc.StatusCode, type[KoalaError]] = {
    grpc.StatusCode.UNAVAILABLE: UnreachableError,
    grpc.StatusCode.CANCELLED: UnreachableError,  # by a server that stops during the call
    grpc.StatusCode.DEADLINE_EXCEEDED: UnreachableError,
    grpc.StatusCode.INVALID_ARGUMENT: SpecError,
    grpc.StatusCode.UNAUTHENTICATED: UnauthenticatedError,
    grpc.StatusCode.PERMISSION_DENIED: DeniedError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ExhaustedError,
    grpc.StatusCode.FAILED_PRECONDITION: RejectedError,
}
"""Errors for statuses without a document: those of gRPC itself, or of another daemon version."""

Metadata = tuple[tuple[str, str | bytes], ...]


def code_of(error: KoalaError) -> grpc.StatusCode:
    """Return the gRPC status code of an error."""
    return next(code for kind, code in _CODES if isinstance(error, kind))


def to_status(error: KoalaError) -> tuple[grpc.StatusCode, str, Metadata]:
    """Encode an error as code, text and trailing metadata of a status."""
    document: dict[str, Any] = {"kind": type(error).__name__, "message": _message(error)}
    if isinstance(error, SpecError) and error.position is not None:
        position = error.position
        document["position"] = [position.line, position.column, position.source[:MESSAGE_MAX]]
    if isinstance(error, SpecError):
        document["others"] = _others(error)
    if isinstance(error, LocalManagerError):
        document["transient"] = error.transient
    if isinstance(error, RejectedError):
        document["lack"] = _lack_document(error)
    trailing: Metadata = ()
    if isinstance(error, ExhaustedError) and error.retry_after_s is not None:
        document["retry_after_s"] = error.retry_after_s
        trailing = ((RETRY_KEY, str(ceil(1_000 * error.retry_after_s))),)
    trailing = ((ERROR_KEY, json.dumps(document).encode()), *trailing)
    return code_of(error), _message(error), trailing


def from_status(
    code: grpc.StatusCode, details: str | None, trailing: Iterable[tuple[str, str | bytes]] | None
) -> KoalaError:
    """Decode the error of a status; a status of gRPC's own becomes the nearest of our errors."""
    for key, value in trailing or ():
        if key == ERROR_KEY and isinstance(value, bytes):
            try:
                return _from_document(json.loads(value))
            except (KeyError, TypeError, ValueError, RecursionError):
                break
    text = details or code.name
    if code in _NEAREST:
        return _NEAREST[code](text)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return KoalaError(f"the daemon does not know this call: {text}")
    return KoalaError(f"{code.name}: {text}")


def submitted_error(error: KoalaError) -> koala_pb2.Submitted:
    """Encode one submission's refusal; the same reply may accept others."""
    reply = koala_pb2.Submitted(error=_message(error), error_kind=_WORDS.get(type(error), "spec"))
    if isinstance(error, ExhaustedError) and error.retry_after_s is not None:
        reply.retry_after_s = error.retry_after_s
    if isinstance(error, SpecError) and error.position is not None:
        reply.line = min(error.position.line, 2**32 - 1)
        reply.column = min(error.position.column, 2**32 - 1)
        reply.source = error.position.source[:MESSAGE_MAX]
    if isinstance(error, SpecError):
        reply.others.extend(_others(error))
    if isinstance(error, RejectedError):
        reply.lack.CopyFrom(koala_pb2.Lack(**_lack_document(error)))
    return reply


def from_submitted(reply: koala_pb2.Submitted) -> KoalaError | None:
    """Decode the error of one submission; None when it was accepted."""
    if not reply.error:
        return None
    if reply.error_kind == _WORDS[ExhaustedError]:
        return ExhaustedError(reply.error, retry_after_s=reply.retry_after_s or None)
    if reply.error_kind == _WORDS[RejectedError]:
        named = {field.name: value for field, value in reply.lack.ListFields()}
        return RejectedError(reply.error, Lack(**named))
    position = None
    if reply.line:
        position = Position(line=reply.line, column=reply.column, source=reply.source)
    return _spec_error(reply.error, position, reply.others)


def _lack_document(error: RejectedError) -> dict[str, Any]:
    return {name: value for name, value in asdict(error.lack).items() if value is not None}


def _message(error: KoalaError) -> str:
    message = error.message if isinstance(error, SpecError) else str(error)
    return message if len(message) <= MESSAGE_MAX else message[: MESSAGE_MAX - 3] + "..."


def _others(error: SpecError) -> list[str]:
    """Encode further mistakes as one line each, so that they fit into a header."""
    return [str(detail).split("\n", 1)[0][:OTHER_MESSAGE_MAX] for detail in error.others]


def _spec_error(message: str, position: Position | None, others: Iterable[object]) -> SpecError:
    return SpecError(message, position, tuple(SpecError(str(detail)) for detail in others))


def _from_document(document: Mapping[str, Any]) -> KoalaError:
    kind, message = _KINDS[document["kind"]], str(document["message"])
    if kind is SpecError:
        position = None
        if (found := document.get("position")) is not None:
            line, column, source = found
            position = Position(line=int(line), column=int(column), source=str(source))
        return _spec_error(message, position, document.get("others", ()))
    if kind is ExhaustedError:
        found = document.get("retry_after_s")
        return ExhaustedError(message, retry_after_s=None if found is None else float(found))
    if kind is LocalManagerError:
        return LocalManagerError(message, transient=bool(document.get("transient")))
    if kind is RejectedError:
        return RejectedError(message, Lack(**document.get("lack", {})))
    return kind(message)
