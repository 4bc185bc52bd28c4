"""Options of a simulation, declared once: in the fields of its `Setting` dataclass.

A field made by `number`, `choice`, `flag` or `text` carries an `Option`, which has the name, the
default, the bounds and the help text. `koala simulate` makes its command line of them
(`koala.lab.commands.options`), and sweep files take the same names; here is no command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Literal, Self, TypeVar

from koala.common.runtime.option_values import ANY_NUMBER, Bounds, known_name, one_of
from koala.errors import ConfigError
from koala.policies import named, names_of
from koala.queue_model import LOCAL_SCHEDULERS, local_scheduler

T = TypeVar("T")
N = TypeVar("N", int, float)
Read = Callable[[str, Any], Any]
"""Makes the field's value of the option's name and value. Raises ConfigError."""

JOBS_MAX = 100_000_000
"""Upper bound of the jobs of one run, which are all in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """Option of a command. `default` is the option's, not the field's: the two may have different
    units or words."""

    default: Any
    help: str
    kind: Literal["number", "whole", "flag", "text", "choice", "file"] = "text"
    name: str = ""
    """Without dashes; empty: made of the field's name, without the unit."""
    metavar: str | None = None
    bounds: Bounds = ANY_NUMBER
    read: Read | None = None
    words: tuple[str, ...] = ()
    """Values that the shell offers. Of a choice they are all; else others may be allowed, too."""
    values: tuple[Any, ...] = ()
    """Values that the words of a choice stand for."""
    is_many: bool = False
    """The option may be repeated."""
    unset: str = ""
    """Effect of leaving the option out, where no default says it."""


def file_option(metavar: str, help: str, *, unset: str = "") -> Option:  # noqa: A002
    """Make an option that names a file or a folder."""
    return Option(default=None, kind="file", metavar=metavar, help=help, unset=unset)


def local_scheduler_name(option: str, text: str) -> str:
    """Check the name of a site's scheduler. Raises ConfigError."""
    return known_name(option, text, LOCAL_SCHEDULERS, local_scheduler)


def require(is_right: bool, name: str, value: object, allowed: str) -> None:  # noqa: FBT001 - read as an assertion
    """Raise ConfigError unless the value is right."""
    if not is_right:
        raise ConfigError(f"{name} = {value} (expected {allowed})")


def require_declared(setting: Any) -> None:  # noqa: ANN401 - a dataclass
    """Raise ConfigError unless each number is within its option's bounds, and each word of a choice
    is one of the option's."""
    for name, one in options_of(type(setting)).items():
        value = getattr(setting, name)
        if one.kind == "choice":
            require(value in one.values, name, value, ", ".join(map(str, one.values)))
        if one.kind in ("number", "whole") and value is not None:
            require(one.bounds.has(value), option_name(name, one), value, str(one.bounds))


def options_of(setting: type) -> dict[str, Option]:
    """Return the options that a dataclass declares, by the names of their fields."""
    return {one.name: one.metadata["option"] for one in fields(setting) if "option" in one.metadata}


def option_name(name: str, option: Option) -> str:
    """Name of an option on the command line, without dashes."""
    return option.name or name.removesuffix("_s").replace("_", "-")


def number(
    default: N,
    help: str,  # noqa: A002 - the word of every library of options
    *,
    name: str = "",
    metavar: str | None = None,
    bounds: Bounds = ANY_NUMBER,
    given: float | None = None,
    read: Read | None = None,
) -> N:
    """Declare a field of a number; `given` is the option's default if it has another unit."""
    kind: Literal["whole", "number"] = "whole" if isinstance(default, int) else "number"
    first = default if given is None else given
    option = Option(
        default=first,
        help=help,
        kind=kind,
        name=name,
        metavar=metavar,
        bounds=bounds,
        read=read,
    )
    return declared(default, option)


def whole(help: str, *, low: int, unset: str, metavar: str | None = None) -> int | None:  # noqa: A002
    """Declare a field of a whole number that is None unless it is given."""
    bounds = Bounds(low=low)
    return declared(
        None,
        Option(default=None, help=help, kind="whole", metavar=metavar, bounds=bounds, unset=unset),
    )


def choice(
    default: T,
    words: Iterable[str] | Mapping[str, T],
    help: str,  # noqa: A002
    *,
    name: str = "",
) -> T:
    """Declare a field with a few values: those of its type, in words, or named by words."""
    values: Mapping[str, Any] = (
        words if isinstance(words, Mapping) else {word: word for word in words}
    )
    first = next(word for word, value in values.items() if value == default)

    def read(option: str, text: str) -> Any:  # noqa: ANN401
        return values[one_of(option, text, tuple(values))]

    option = Option(
        default=first,
        help=help,
        kind="choice",
        name=name,
        read=read,
        words=tuple(values),
        values=tuple(values.values()),
    )
    return declared(default, option)


def policy(default: str, slot: str, help: str, *, name: str = "") -> str:  # noqa: A002
    """Declare a field of a policy's name: built-in (in any case), of another package, or
    `module:function`."""

    def read(option: str, text: str) -> str:
        return policy_name(option, slot, text)

    names = _names(slot)
    full = f"{help} {', '.join(names)}, or your own as module:function."
    found: str = text(default, read, full, name=name, metavar="NAME", words=names)
    return found


def policy_name(option: str, slot: str, text: str) -> str:
    """Check the name of a policy; built-in names match in any case. Raises ConfigError."""
    if slot == "local":
        return local_scheduler_name(option, text)
    return known_name(option, text, names_of(slot), partial(named, slot))


def _names(slot: str) -> tuple[str, ...]:
    return tuple(LOCAL_SCHEDULERS) if slot == "local" else names_of(slot)


def flag(help: str, *, name: str, default: bool = False) -> bool:  # noqa: A002
    """Declare a field that an option switches to the other value."""
    option = Option(
        default=False, help=help, kind="flag", name=name, read=lambda _, is_on: is_on is not default
    )
    return declared(default, option)


def text(
    default: str | None,
    read: Callable[[str, str], Any],
    help: str,  # noqa: A002
    *,
    metavar: str,
    name: str = "",
    words: tuple[str, ...] = (),
    unset: str = "",
) -> Any:  # noqa: ANN401 - what `read` makes
    """Declare a field that `read` makes of the option's text; without a default it may be None."""

    def read_given(option: str, given: str | None) -> Any:  # noqa: ANN401
        return None if given is None else read(option, given)

    option = Option(
        default=default,
        help=help,
        name=name,
        metavar=metavar,
        read=read_given,
        words=words,
        unset=unset,
    )
    return declared(read_given(name, default), option)


def declared(default: T, option: Option) -> T:
    """Declare a field whose default is not the option's."""
    made: T = field(default=default, metadata={"option": option})
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """Options of a simulation, and the function that makes its setting of their values."""

    options: Mapping[str, Option]
    make: Callable[..., Any]

    @classmethod
    def of(
        cls,
        setting: type,
        *,
        make: Callable[..., Any] | None = None,
        more: Mapping[str, Option] | None = None,
    ) -> Self:
        """Take the options that the fields of `setting` declare, and `more` that are not fields;
        without `make` the class itself takes the values."""
        return cls(options={**options_of(setting), **(more or {})}, make=make or setting)

    def values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Read the values of all options. Raises ConfigError."""
        return {
            name: one.read(option_name(name, one), given[name]) if one.read else given[name]
            for name, one in self.options.items()
        }

    def setting(self, given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a dataclass
        """Make the setting of the values of all options. Raises ConfigError."""
        return self.make(**self.values(given))
