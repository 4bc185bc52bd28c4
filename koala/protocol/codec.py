"""Codec of the link, derived from the fields of `messages` and the descriptors of `link.proto`.

- A field is encoded under its own name. A pair, such as (name, processors), becomes a message of
  two fields.
- Empty and zero on the wire mean absent: the field gets its default, if it has one.
- Constraints are checked when a message is decoded.

Converters are built once for each class.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache, partial
from operator import attrgetter
from types import NoneType, UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from koala.errors import SpecError
from koala.protocol import messages
from koala.protocol.constraints import Claim, Constraint
from koala.protocol.names import ClaimId
from koala.wire.v1 import link_pb2 as pb

Convert = Callable[[Any], Any]

TO_AGENT: dict[str, type] = {
    "welcome": messages.Welcome,
    "reject": messages.Reject,
    "wanted_end": messages.WantedEnd,
    "hold": messages.Hold,
    "try_paths": messages.TryPaths,
    "arm": messages.Arm,
    "release": messages.Release,
    "pace": messages.Pace,
    "stop": messages.Stop,
    "acknowledge": messages.Acknowledge,
    "fetch": messages.FetchOrder,
    "serve": messages.ServeOrder,
    "cancel_transfer": messages.CancelTransfer,
    "beat": messages.Beat,
    "pong": messages.Pong,
    "kv_answer": messages.KvAnswer,
    "log_request": messages.LogRequest,
    "goodbye": messages.Goodbye,
}
"""Messages to an agent, by the kinds of ToAgent."""

FROM_AGENT: dict[type, tuple[str, dict[str, bool]]] = {
    messages.InventoryEnd: ("inventory_end", {}),
    messages.Report: ("claim", {}),
    messages.SiteFigures: ("site", {}),
    messages.Beat: ("beat", {}),
    messages.Ping: ("ping", {}),
    messages.TransferProgress: ("transfer", {}),
    messages.TransferFinished: ("transfer", {"is_finished": True}),
    messages.TransferFailed: ("transfer", {"is_failed": True}),
    messages.FileFound: ("file", {}),
    messages.FileRemoved: ("file", {"is_removed": True}),
    messages.KvPut: ("kv_put", {}),
    messages.KvGet: ("kv_get", {}),
    messages.LogChunk: ("log", {}),
    messages.Goodbye: ("goodbye", {}),
    messages.PathsReport: ("paths", {}),
    messages.Progress: ("progress", {}),
}
"""Messages of an agent: the kind of FromAgent, and the flags that tell it from others of a kind."""


def decode(message: pb.ToAgent) -> object | None:
    """Decode a message to an agent; None for a kind of a later protocol. Raises SpecError."""
    kind = message.WhichOneof("kind")
    if kind is None or kind not in TO_AGENT:
        return None
    content = getattr(message, kind)
    decoded: object = decoder(TO_AGENT[kind], content.DESCRIPTOR)(content)
    return decoded


def encode(message: object) -> pb.FromAgent:
    """Encode a message of an agent."""
    cls: type = type(message)
    kind, flags = FROM_AGENT[cls]
    encoded = _encoder_of_kind(cls, kind)(message)
    for flag in flags:
        setattr(encoded, flag, True)
    return pb.FromAgent(**{kind: encoded})


@cache
def decoder(cls: type, descriptor: Descriptor) -> Convert:
    """Build the decoder of a class of messages."""
    hints = get_type_hints(cls, include_extras=True)
    names = tuple(field.name for field in fields(cls))
    get = _getter(names)
    readers = tuple(
        (field.name, reader)
        for field in fields(cls)
        if (reader := _reader(field, hints[field.name], descriptor)) is not None
    )
    rule = _RULES.get(cls)

    def read(message: Message) -> object:
        given = dict(zip(names, get(message), strict=True))
        for name, reader in readers:
            given[name] = reader(given[name])
        value = cls(**given)
        if rule is not None:
            rule(value)
        return value

    return read


@cache
def encoder(cls: type, descriptor: Descriptor) -> Convert:
    """Build the encoder of a class of messages. None is encoded as absent."""
    hints = get_type_hints(cls)
    wire_class = GetMessageClass(descriptor)
    names = tuple(field.name for field in fields(cls))
    get = _getter(names)
    writers = tuple(
        (name, writer)
        for name in names
        if (writer := _writer(hints[name], descriptor.fields_by_name[name])) is not None
    )

    def write(value: object) -> Message:
        given = dict(zip(names, get(value), strict=True))
        for name, writer in writers:
            if given[name] is not None:
                given[name] = writer(given[name])
        return wire_class(**given)

    return write


@cache
def _encoder_of_kind(cls: type, kind: str) -> Convert:
    descriptor = pb.FromAgent.DESCRIPTOR.fields_by_name[kind].message_type
    assert descriptor is not None
    return encoder(cls, descriptor)


# Fields ------------------------------------------------------------------------------------------


def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Build a function that returns these attributes of an object as a tuple."""
    if len(names) > 1:
        return cast(Callable[[Any], tuple[Any, ...]], attrgetter(*names))
    return lambda value: tuple(getattr(value, name) for name in names)


def _reader(field: Field[Any], hint: Any, descriptor: Descriptor) -> Convert | None:
    """Build the reader of a field; None: its value is taken as it is.

    Constraints on fields with a default of zero accept zero.
    """
    convert = _value_reader(field.name, hint, descriptor.fields_by_name[field.name])
    default = field.default
    if default is MISSING or (default is not None and not default):
        return convert
    if convert is None:
        return lambda value: value or default
    return lambda value: convert(value) if value else default


def _value_reader(name: str, hint: Any, field: FieldDescriptor) -> Convert | None:
    if get_origin(hint) is Annotated:
        (_inner, constraint) = get_args(hint)
        return partial(cast(Constraint, constraint).check, name)
    if hint is ClaimId:
        return partial(Claim().check, name)
    if get_origin(hint) is tuple:
        return _tuple_reader(name, get_args(hint)[0], field)
    if _is_message(hint):
        assert field.message_type is not None
        return decoder(hint, field.message_type)
    return None


def _tuple_reader(name: str, item: Any, field: FieldDescriptor) -> Convert:
    if get_origin(item) is tuple:
        assert field.message_type is not None
        get = _getter(tuple(part.name for part in field.message_type.fields))
        return lambda pairs: tuple(map(get, pairs))
    convert = _value_reader(name, item, field)
    return tuple if convert is None else lambda values: tuple(map(convert, values))


def _writer(hint: Any, field: FieldDescriptor) -> Convert | None:
    """Build the writer of a field's value; None: it is written as it is."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (arg for arg in get_args(hint) if arg is not NoneType)
    if get_origin(hint) is tuple and field.message_type is not None:
        pair_class = GetMessageClass(field.message_type)
        names = tuple(part.name for part in field.message_type.fields)
        return lambda pairs: [pair_class(**dict(zip(names, pair, strict=True))) for pair in pairs]
    if field.enum_type is not None and issubclass(hint, enum.Enum):
        prefix = field.enum_type.values[0].name.removesuffix("UNSPECIFIED")
        numbers = {
            member: field.enum_type.values_by_name[prefix + member.name].number for member in hint
        }
        return numbers.__getitem__
    if _is_message(hint):
        assert field.message_type is not None
        return encoder(hint, field.message_type)
    return None


def _is_message(hint: Any) -> bool:
    return isinstance(hint, type) and is_dataclass(hint)


# Rules of whole messages -------------------------------------------------------------------------


def _check_hold(hold: messages.Hold) -> None:
    if hold.processors < 1:
        raise SpecError(f"a Hold of {hold.claim!r} for 0 processors: allowed is 1 or more")


def _check_program(program: messages.Program) -> None:
    """Reject NUL characters in all that becomes part of a path or a command."""
    texts: list[str] = [*program.arguments, *program.output_files]
    texts += (text for pair in program.environment for text in pair)
    texts += (value for name in _PROGRAM_TEXTS if (value := getattr(program, name)))
    if "\0" in "".join(texts):
        raise SpecError("a program with a NUL character: allowed are those that a command can have")


_PROGRAM_TEXTS = tuple(
    name for name, hint in get_type_hints(messages.Program).items() if hint is str
)


def _check_arm(arm: messages.Arm) -> None:
    if arm.claim not in {peer.claim for peer in arm.peers}:
        raise SpecError(f"an Arm of {arm.claim} whose members do not include it")


_RULES: dict[type, Callable[[Any], None]] = {
    messages.Hold: _check_hold,
    messages.Program: _check_program,
    messages.Arm: _check_arm,
}
