"""Options of a simulation, declared once: in the fields of its `Setting` dataclass.

A field made by `number`, `choice`, `flag` or `text` carries an `Option`, which has the name, the
default, the bounds and the help text. `koala simulate` makes its command line of them
(`koala.cli.research.setting_options`); here is no command line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from math import isfinite, isinf, nan
from typing import Any, Literal, TypeVar, overload

from koala.errors import ConfigError
from koala.policies import named, names_of
from koala_agent.lrm.model import LOCAL_SCHEDULERS, local_scheduler

T = TypeVar("T")
N = TypeVar("N", int, float)
Read = Callable[[str, Any], Any]
"""Makes the field's value of the option's name and value. Raises ConfigError."""

JOBS_MAX = 100_000_000
"""Upper bound of the jobs of one run, which are all in memory."""
PROCESSORS_MAX = 10_000_000
SITES_MAX = 10_000
SENSIBLE_MIN, SENSIBLE_MAX = 1e-12, 1e15
SENSIBLE = f"0 and numbers from {SENSIBLE_MIN:g} to {SENSIBLE_MAX:g}, also below 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """Option of a command. `default` is the option's, not the field's: the two may have different
    units or words."""

    default: Any
    help: str
    kind: Literal["number", "whole", "flag", "text", "file"] = "text"
    name: str = ""
    """Without dashes; empty: made of the field's name, without the unit."""
    metavar: str | None = None
    low: int | None = None
    high: int | None = None
    read: Read | None = None
    words: tuple[str, ...] = ()
    """Values that the shell offers; others may be allowed, too."""


def require(is_right: bool, name: str, value: object, allowed: str) -> None:  # noqa: FBT001 - read as an assertion
    """Raise ConfigError unless the value is right."""
    if not is_right:
        raise ConfigError(f"{name} = {value}: allowed is {allowed}")


def options_of(setting: type) -> dict[str, Option]:
    """Options that a dataclass declares, by the names of their fields."""
    return {one.name: one.metadata["option"] for one in fields(setting) if "option" in one.metadata}


def option_name(name: str, option: Option) -> str:
    """Name of an option on the command line, without dashes."""
    return option.name or name.removesuffix("_s").replace("_", "-")


def number(
    default: N,
    help: str,  # noqa: A002 - the word of every library of options
    *,
    name: str = "",
    low: int | None = None,
    high: int | None = None,
    given: float | None = None,
    read: Read | None = None,
) -> N:
    """Declare a field of a number; `given` is the option's default if it has another unit."""
    kind: Literal["whole", "number"] = "whole" if isinstance(default, int) else "number"
    first = default if given is None else given
    option = Option(default=first, help=help, kind=kind, name=name, low=low, high=high, read=read)
    return _field(default, option)


def choice(
    default: T,
    words: tuple[str, ...] | Mapping[str, T],
    help: str,  # noqa: A002
    *,
    name: str = "",
) -> T:
    """Declare a field with a few values, in words or named by words."""
    values: Mapping[str, Any] = (
        words if isinstance(words, Mapping) else {word: word for word in words}
    )
    first = next(word for word, value in values.items() if value == default)

    def read(option: str, text: str) -> Any:  # noqa: ANN401
        return values[one_of(option, text, tuple(values))]

    return _field(
        default, Option(default=first, help=help, name=name, read=read, words=tuple(values))
    )


def policy(default: str, slot: str, help: str, *, name: str = "") -> str:  # noqa: A002
    """Declare a field of a policy's name: built-in (in any case), of another package, or
    `module:function`."""

    def read(option: str, text: str) -> str:
        return policy_name(option, slot, text)

    return text(default, read, f"{help} {OWN}", name=name, words=_names(slot))


OWN = "Also module:function."


def policy_name(option: str, slot: str, text: str) -> str:
    """Check the name of a policy; built-in names match in any case. Raises ConfigError."""
    found = next((word for word in _names(slot) if word.lower() == text.lower()), text)
    try:
        local_scheduler(found) if slot == "local" else named(slot, found)
    except ConfigError as error:
        told = str(error).partition(": ")[2].replace("known are", "allowed are", 1)
        raise ConfigError(f"--{option} {text}: {told}") from error
    return found


def _names(slot: str) -> tuple[str, ...]:
    return tuple(LOCAL_SCHEDULERS) if slot == "local" else names_of(slot)


def flag(help: str, *, name: str, default: bool = False) -> bool:  # noqa: A002
    """Declare a field that an option switches to the other value."""
    option = Option(
        default=False, help=help, kind="flag", name=name, read=lambda _, is_on: is_on is not default
    )
    return _field(default, option)


@overload
def text(
    default: str,
    read: Callable[[str, str], T],
    help: str,
    *,
    name: str = ...,
    metavar: str = ...,
    words: tuple[str, ...] = ...,
) -> T: ...
@overload
def text(
    default: None,
    read: Callable[[str, str], T],
    help: str,
    *,
    name: str = ...,
    metavar: str = ...,
    words: tuple[str, ...] = ...,
) -> T | None: ...
def text(
    default: str | None,
    read: Callable[[str, str], T],
    help: str,  # noqa: A002
    *,
    name: str = "",
    metavar: str | None = None,
    words: tuple[str, ...] = (),
) -> T | None:
    """Declare a field that `read` makes of the option's text; without a default it may be None."""

    def read_given(option: str, given: str | None) -> T | None:
        return None if given is None else read(option, given)

    option = Option(
        default=default, help=help, name=name, metavar=metavar, read=read_given, words=words
    )
    return _field(read_given(name, default), option)


def _field(default: T, option: Option) -> T:
    made: T = field(default=default, metadata={"option": option})
    return made


def is_sensible(number: float) -> bool:
    """True for 0, infinity and magnitudes that calculations can use; False for nan.

    Durations, loads and shares are never outside these bounds, and products of numbers outside
    would overflow. Settings that must be finite check that themselves.
    """
    return number == 0 or SENSIBLE_MIN <= abs(number) <= SENSIBLE_MAX or isinf(number)


def numbers(option: str, text: str, *, separator: str = ",") -> tuple[float, ...]:
    """Parse a list such as 25,25,25,25. Raises ConfigError naming the option and the value."""
    try:
        found = tuple(float(word) for word in text.split(separator))
    except ValueError:
        found = (nan,)
    if not all(isfinite(one) and is_sensible(one) for one in found):
        example = separator.join(("1", "2"))
        raise ConfigError(f"--{option} {text}: allowed are numbers such as {example} ({SENSIBLE})")
    return found


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Parse a list of whole numbers. Raises ConfigError."""
    found = numbers(option, text)
    if not all(one == int(one) for one in found):
        raise ConfigError(f"--{option} {text}: allowed are whole numbers")
    return tuple(int(one) for one in found)


def pair(words: str, example: str) -> Callable[[str, str], tuple[float, float]]:
    """Make the parser of two numbers with a colon between, such as 30:192."""

    def read(option: str, text: str) -> tuple[float, float]:
        ends = numbers(option, text, separator=":")
        if len(ends) != 2:
            raise ConfigError(f"--{option} {text}: allowed is {words}, for instance {example}")
        return ends[0], ends[1]

    return read


def bounds(option: str, text: str) -> tuple[int, int]:
    """Parse a range of whole numbers such as 1:8, ends included. Raises ConfigError."""
    low, _, high = text.partition(":")
    try:
        found = int(low), int(high)
    except ValueError:
        found = 1, 0
    if not 0 <= found[0] <= found[1]:
        raise ConfigError(f"--{option} {text}: allowed is LOW:HIGH, for instance 1:8")
    return found


def site_sizes(option: str, text: str) -> tuple[int, ...]:
    """Parse the processors of each site: 4x32 is four sites of 32; 128,3x24 one of 128 and three
    of 24. Raises ConfigError."""
    found: list[int] = []
    for word in text.split(","):
        count, _, size = word.rpartition("x")
        try:
            found += [int(size)] * min(int(count) if count else 1, SITES_MAX + 1)
        except ValueError:
            found.append(0)
        if len(found) > SITES_MAX:
            break
    if not found or min(found) < 1 or max(found) > PROCESSORS_MAX or len(found) > SITES_MAX:
        raise ConfigError(
            f"--{option} {text}: allowed are processors of each site, for instance 4x32 or"
            f" 128,3x24: at most {SITES_MAX} sites of at most {PROCESSORS_MAX} each"
        )
    return tuple(found)


def one_of(option: str, text: str, allowed: tuple[str, ...]) -> str:
    """Match a word against the allowed ones, in any case. Raises ConfigError."""
    for word in allowed:
        if word.lower() == text.lower():
            return word
    raise ConfigError(f"--{option} {text}: allowed are {', '.join(allowed)}")
