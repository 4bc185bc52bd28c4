"""Codec of the link, derived from the fields of `messages` and the descriptors of `link.proto`.

- A field is encoded under its own name. A pair, such as (name, processors), becomes a message of
  two fields.
- Empty and zero on the wire mean absent: the field gets its default, if it has one. None is encoded
  as absent. A number that the wire's field cannot hold is encoded as the largest that it can, where
  None means no limit.
- Constraints are checked when a message is decoded.

As `dataclasses` does, the codec writes the source of one function for each class and direction when
the class is first used, and compiles it: so it costs what a function written by hand would. The
sources hold only names of fields and of the values that are given to them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from functools import cache
from itertools import count
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Generic,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from koala.common.protocol import messages
from koala.common.protocol.constraints import Claim, Constraint, OneOf, Printable, Text
from koala.common.protocol.messages import FromAgent, ReportState, ToAgent
from koala.common.protocol.names import ClaimId, SiteName
from koala.common.protocol.versions import PROTOCOL
from koala.common.wire.v1 import link_pb2 as pb
from koala.errors import SpecError

Convert = Callable[[Any], Any]
Wire = TypeVar("Wire", bound=Message)
Value = TypeVar("Value")
UINT32_MAX = 2**32 - 1


class _Built(dict[Any, Convert]):
    """Converters that are built when they are first used."""

    def __init__(self, build: Callable[[Any], Convert]) -> None:
        super().__init__()
        self._build = build

    def __missing__(self, key: object) -> Convert:
        self[key] = self._build(key)
        return self[key]


class Direction(Generic[Wire, Value]):
    """Messages of one direction: each class's kind, and flags to tell it from others."""

    def __init__(self, wire: type[Wire], classes: dict[type, tuple[str, frozenset[str]]]) -> None:
        self.classes = classes
        self._wire = wire
        self._encoders: dict[type, Convert] = _Built(self._encoder)
        self._decoders: dict[str, Convert] = _Built(self._decoder)

    def encode(self, message: object) -> Wire:
        """Encode a message; a class that extends one of the link is encoded as that one."""
        encoded: Wire = self._encoders[type(message)](message)
        return encoded

    def decode(self, message: Wire) -> Value | None:
        """Decode a message; None for a kind of a later protocol. Raises SpecError."""
        kind = message.WhichOneof("kind")
        if kind is None:
            return None
        decoded: Value | None = self._decoders[kind](getattr(message, kind))
        return decoded

    def descriptor(self, kind: str) -> Descriptor:
        """Return the descriptor of the messages of a kind."""
        found: Any = self._wire.DESCRIPTOR.fields_by_name[kind].message_type
        return cast(Descriptor, found)

    def _encoder(self, cls: type) -> Convert:
        own = next(base for base in cls.__mro__ if base in self.classes)
        kind, flags = self.classes[own]
        source = _Source()
        set_flags = "".join(f", {flag}=True" for flag in sorted(flags))
        body = source.encoded(own, self.descriptor(kind), "value", set_flags)
        return source.function(f"{source.name(self._wire)}({kind}={body})")

    def _decoder(self, kind: str) -> Convert:
        decoders = {
            flags: decoder(cls, self.descriptor(kind))
            for cls, (own, flags) in self.classes.items()
            if own == kind
        }
        names = frozenset().union(*decoders)

        def decode(body: Message) -> object | None:
            flags = frozenset(name for name in names if getattr(body, name))
            found = decoders.get(flags)
            return None if found is None else found(body)

        return decode if names else decoders[frozenset()]


def _only(**classes: type) -> dict[type, tuple[str, frozenset[str]]]:
    return {cls: (kind, frozenset()) for kind, cls in classes.items()}


TO_AGENT: Direction[pb.ToAgent, ToAgent] = Direction(
    pb.ToAgent,
    _only(
        welcome=messages.Welcome,
        reject=messages.Reject,
        wanted_end=messages.WantedEnd,
        hold=messages.Hold,
        try_paths=messages.TryPaths,
        arm=messages.Arm,
        release=messages.Release,
        resize=messages.Resize,
        pace=messages.Pace,
        stop=messages.Stop,
        acknowledge=messages.Acknowledge,
        fetch=messages.FetchOrder,
        serve=messages.ServeOrder,
        cancel_transfer=messages.CancelTransfer,
        remove_file=messages.RemoveFile,
        beat=messages.Beat,
        pong=messages.Pong,
        kv_answer=messages.KvAnswer,
        log_request=messages.LogRequest,
        goodbye=messages.Goodbye,
    ),
)
FROM_AGENT: Direction[pb.FromAgent, FromAgent] = Direction(
    pb.FromAgent,
    {
        **_only(
            register=messages.Register,
            inventory_end=messages.InventoryEnd,
            claim=messages.Report,
            site=messages.SiteFigures,
            beat=messages.Beat,
            ping=messages.Ping,
            transfer=messages.TransferProgress,
            file=messages.FileFound,
            kv_put=messages.KvPut,
            kv_get=messages.KvGet,
            log=messages.LogChunk,
            goodbye=messages.Goodbye,
            paths=messages.PathsReport,
            progress=messages.Progress,
            ports_used=messages.PortsUsed,
        ),
        messages.TransferFinished: ("transfer", frozenset({"is_finished"})),
        messages.TransferFailed: ("transfer", frozenset({"is_failed"})),
        messages.FileRemoved: ("file", frozenset({"is_removed"})),
    },
)


def watermark_of(message: pb.ToAgent) -> messages.Watermark | None:
    """Decode the row of the journal that a message rests on, if it names one. Raises SpecError."""
    if not message.HasField("mark"):
        return None
    mark: messages.Watermark = decoder(messages.Watermark, pb.Mark.DESCRIPTOR)(message.mark)
    return mark


def set_watermark(message: pb.ToAgent, mark: messages.Watermark) -> None:
    """Name the row of the journal that a message rests on."""
    message.mark.CopyFrom(encoder(messages.Watermark, pb.Mark.DESCRIPTOR)(mark))


@cache
def decoder(cls: type, descriptor: Descriptor) -> Convert:
    """Build the decoder of a class of messages."""
    source = _Source()
    hints = get_type_hints(cls, include_extras=True)
    arguments = ", ".join(
        f"{field.name}={source.decoded(field, hints[field.name], descriptor)}"
        for field in fields(cls)
    )
    made = f"{source.name(cls)}({arguments})"
    rule = _RULES.get(cls)
    convert = source.function(made if rule is None else f"{source.name(rule)}({made})")
    return _registration(convert) if cls is messages.Register else convert


@cache
def encoder(cls: type, descriptor: Descriptor) -> Convert:
    """Build the encoder of a class of messages."""
    source = _Source()
    return source.function(source.encoded(cls, descriptor, "value"))


class _Source:
    """Source of one function of `value`, and the objects that it names."""

    def __init__(self) -> None:
        self._names: dict[str, object] = {}
        self._numbers = count()

    def name(self, thing: object) -> str:
        """Name an object in the source."""
        name = f"_{next(self._numbers)}"
        self._names[name] = thing
        return name

    def function(self, expression: str) -> Convert:
        """Compile the function that returns an expression of `value`."""
        made: Convert = eval(f"lambda value: {expression}", self._names)
        return made

    # Encoding

    def encoded(self, cls: type, descriptor: Descriptor, value: str, more: str = "") -> str:
        """Return the expression of the message of a value."""
        hints = get_type_hints(cls)
        arguments = ", ".join(
            f"{field.name}="
            + self._encoded_field(
                hints[field.name], descriptor.fields_by_name[field.name], f"{value}.{field.name}"
            )
            for field in fields(cls)
        )
        return f"{self.name(GetMessageClass(descriptor))}({arguments}{more})"

    def _encoded_field(self, hint: Any, field: FieldDescriptor, value: str) -> str:
        if get_origin(hint) in (Union, UnionType):
            (hint,) = (arg for arg in get_args(hint) if arg is not NoneType)
            written = self._encoded_field(hint, field, value)
            if field.type == FieldDescriptor.TYPE_UINT32:
                written = f"min({value}, {UINT32_MAX})"
            return value if written == value else f"None if {value} is None else {written}"
        if get_origin(hint) is tuple and field.message_type is not None:
            (item, *_rest), one = get_args(hint), self._fresh()
            if _is_message(item):
                made = self.encoded(item, field.message_type, one)
            else:
                parts = [part.name for part in field.message_type.fields]
                pairs = ", ".join(f"{name}={one}[{i}]" for i, name in enumerate(parts))
                made = f"{self.name(GetMessageClass(field.message_type))}({pairs})"
            return f"[{made} for {one} in {value}]"
        if field.enum_type is not None:
            numbers = {member: number for number, member in _members(hint, field).items()}
            return f"{self.name(numbers)}[{value}]"
        if _is_message(hint):
            assert field.message_type is not None
            return self.encoded(hint, field.message_type, value)
        return value

    def _fresh(self) -> str:
        return f"one{next(self._numbers)}"

    # Decoding

    def decoded(self, field: Field[Any], hint: Any, descriptor: Descriptor) -> str:
        """Return the expression of a field's value. A constraint on a field whose default is zero
        accepts zero; another default stands for zero."""
        wire = descriptor.fields_by_name[field.name]
        value = f"value.{field.name}"
        read = self._decoded_value(field.name, hint, wire, value)
        default = field.default
        if wire.has_presence and default is None:
            return f'{read} if value.HasField("{field.name}") else None'
        if wire.message_type is not None or default is MISSING:
            return read
        if default is not None and not default:
            return read
        return f"({read} if {value} else {self.name(default)})"

    def _decoded_value(self, name: str, hint: Any, field: FieldDescriptor, value: str) -> str:
        if get_origin(hint) in (Union, UnionType):
            (hint,) = (arg for arg in get_args(hint) if arg is not NoneType)
        inner, constraint = _constraint(hint)
        if constraint is not None:
            value = f'{self.name(constraint.check)}("{name}", {value})'
        if get_origin(inner) is tuple:
            return self._decoded_list(name, get_args(inner)[0], field, value)
        if _is_message(inner):
            assert field.message_type is not None
            return f"{self.name(decoder(inner, field.message_type))}({value})"
        if field.enum_type is not None:
            members = self.name(_members(inner, field))
            return f'{self.name(_member_of)}({members}, "{name}", {value})'
        return value

    def _decoded_list(self, name: str, item: Any, field: FieldDescriptor, value: str) -> str:
        one = self._fresh()
        if get_origin(item) is tuple:
            assert field.message_type is not None
            parts = zip(get_args(item), field.message_type.fields, strict=True)
            pair = [self._decoded_value(name, kind, p, f"{one}.{p.name}") for kind, p in parts]
            return f"tuple([({', '.join(pair)}) for {one} in {value}])"
        read = self._decoded_value(name, item, field, one)
        return f"tuple({value})" if read == one else f"tuple([{read} for {one} in {value}])"


def _constraint(hint: Any) -> tuple[Any, Constraint | None]:
    """Split a type from its constraint, if it has one."""
    if get_origin(hint) is Annotated:
        inner, constraint = get_args(hint)
        return inner, constraint
    if hint is ClaimId:
        return hint, Claim()
    if isinstance(hint, type) and issubclass(hint, enum.StrEnum) and hint is not ReportState:
        return hint, OneOf(tuple(hint))
    return hint, None


def _is_message(hint: Any) -> bool:
    return isinstance(hint, type) and is_dataclass(hint)


def _members(hint: type[enum.Enum], field: FieldDescriptor) -> dict[int, enum.Enum]:
    """Map the numbers of the wire to the members of an enumeration."""
    assert field.enum_type is not None
    prefix = field.enum_type.values[0].name.removesuffix("UNSPECIFIED")
    by_name = field.enum_type.values_by_name
    return {by_name[prefix + member.name].number: member for member in hint}


def _member_of(members: dict[int, enum.Enum], name: str, number: int) -> enum.Enum:
    found = members.get(number)
    if found is None:
        raise SpecError(f"{name} = {number} (expected 1 to {max(members)})")
    return found


# Rules of whole messages -------------------------------------------------------------------------


def _check_hold(hold: messages.Hold) -> messages.Hold:
    if hold.processors < 1:
        raise SpecError(f"a Hold of {hold.claim!r} for 0 processors (expected 1 or more)")
    return hold


def _check_program(program: messages.Program) -> messages.Program:
    """Reject NUL characters in all that becomes part of a path or a command."""
    texts: list[str] = [*program.arguments, *program.output_files, *program.outputs]
    texts += (text for pair in program.environment for text in pair)
    texts += (value for name in _PROGRAM_TEXTS if (value := getattr(program, name)))
    if "\0" in "".join(texts):
        raise SpecError("a program with a NUL character (expected none)")
    return program


_PROGRAM_TEXTS = tuple(
    name for name, hint in get_type_hints(messages.Program).items() if hint in (str, str | None)
)


def _check_arm(arm: messages.Arm) -> messages.Arm:
    if arm.claim not in {peer.claim for peer in arm.peers}:
        raise SpecError(f"an Arm of {arm.claim} whose members do not include it")
    return arm


def _check_resize(resize: messages.Resize) -> messages.Resize:
    if resize.claim not in {peer.claim for peer in resize.peers}:
        raise SpecError(f"a Resize of {resize.claim} whose members do not include it")
    if resize.number < 1:
        raise SpecError(f"a Resize of {resize.claim} with number 0 (expected 1 or more)")
    return resize


def _check_report(report: messages.Report) -> messages.Report:
    """Reject a state without what it rests on; drop an end of a claim that is not gone."""
    field = _NEEDED.get(report.state)
    if field is not None and getattr(report, field) is None:
        raise SpecError(f"claim {report.claim!r} is {report.state} without {field}")
    if report.end is not None and report.state is not ReportState.GONE:
        return replace(report, end=None)
    return report


_NEEDED = {
    ReportState.ARMED: "armed",
    ReportState.PASSED: "passed_at",
    ReportState.GONE: "end",
}


_RULES: dict[type, Convert] = {
    messages.Hold: _check_hold,
    messages.Program: _check_program,
    messages.Arm: _check_arm,
    messages.Resize: _check_resize,
    messages.Report: _check_report,
}


def _registration(convert: Convert) -> Convert:
    """Wrap the decoder of a registration: of one in a version that this end does not speak, only
    what names its sender is read."""

    def read(register: pb.Register) -> messages.Register:
        if register.protocol == PROTOCOL:
            known: messages.Register = convert(register)
            return known
        return messages.Register(
            protocol=register.protocol,
            version=Printable().check("version", register.version),
            site=SiteName(Text().check("site", register.site)),
            session="",
            epoch_seen=0,
            idle=0,
        )

    return read
