"""Values of options in words: numbers, lists, ranges and names. The readers raise ConfigError with
the option, its value and what is allowed.

The command line and the simulations share them; the names of policies and schedulers are elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isfinite, isinf, nan

from koala.errors import ConfigError

PROCESSORS_MAX = 10_000_000
SITES_MAX = 10_000
SENSIBLE_MIN, SENSIBLE_MAX = 1e-12, 1e15
SENSIBLE = f"0, or a number from {SENSIBLE_MIN:g} to {SENSIBLE_MAX:g}, also below 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Numbers that an option allows: from `low` or above `above`, to `high` or below `below`. Below
    infinity means finite ones."""

    low: float | None = None
    above: float | None = None
    high: float | None = None
    below: float | None = None

    def has(self, number: float) -> bool:
        """Return True for an allowed number."""
        return not (
            (self.low is not None and not number >= self.low)
            or (self.above is not None and not number > self.above)
            or (self.high is not None and not number <= self.high)
            or (self.below is not None and not number < self.below)
        )

    def __str__(self) -> str:
        """Write the bounds in words; nothing without bounds."""
        high = "" if self.high is None else written(self.high)
        if self.below is not None and isfinite(self.below):
            end = f"below {written(self.below)}"
        else:
            end = f"at most {high}" if high else ""
        if self.above is not None:
            return ", ".join(filter(None, (f"more than {written(self.above)}", end)))
        if self.low is None:
            return end
        low = written(self.low)
        return f"{low} to {high}" if high else ", ".join(filter(None, (f"{low} or more", end)))


ANY_NUMBER = Bounds()


def written(value: object) -> str:
    """Write a value as a user would: 3600 for 3600.0."""
    is_whole = isinstance(value, float) and value.is_integer()
    return f"{value:.0f}" if is_whole else str(value)


def is_sensible(number: float) -> bool:
    """Return True for 0, infinity and magnitudes that calculations can use; False for nan.

    Durations, loads and shares are never outside these bounds, and products of numbers outside
    would overflow. Settings that must be finite check that themselves.
    """
    return number == 0 or SENSIBLE_MIN <= abs(number) <= SENSIBLE_MAX or isinf(number)


def numbers(option: str, text: str, *, separator: str = ",") -> tuple[float, ...]:
    """Parse a list such as 25,25,25,25. Raises ConfigError naming the option and the value."""
    try:
        values = tuple(float(word) for word in text.split(separator))
    except ValueError:
        values = (nan,)
    if not all(isfinite(value) and is_sensible(value) for value in values):
        example = separator.join(("1", "2"))
        raise ConfigError(f"--{option} {text} (expected numbers such as {example}: {SENSIBLE})")
    return values


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Parse a list of whole numbers. Raises ConfigError."""
    values = numbers(option, text)
    if not all(value == int(value) for value in values):
        raise ConfigError(f"--{option} {text} (expected whole numbers)")
    return tuple(int(value) for value in values)


def pair(words: str, example: str) -> Callable[[str, str], tuple[float, float]]:
    """Make the parser of two numbers with a colon between, such as 30:192."""

    def read(option: str, text: str) -> tuple[float, float]:
        ends = numbers(option, text, separator=":")
        if len(ends) != 2:
            raise ConfigError(f"--{option} {text} (expected {words}, for instance {example})")
        return ends[0], ends[1]

    return read


def bounds(option: str, text: str) -> tuple[int, int]:
    """Parse a range of whole numbers such as 1:8, ends included. Raises ConfigError."""
    low, _, high = text.partition(":")
    try:
        ends = int(low), int(high)
    except ValueError:
        ends = 1, 0
    if not 0 <= ends[0] <= ends[1]:
        raise ConfigError(f"--{option} {text} (expected LOW:HIGH, for instance 1:8)")
    return ends


def site_sizes(option: str, text: str) -> tuple[int, ...]:
    """Parse the processors of each site: 4x32 is four sites of 32; 128,3x24 one of 128 and three
    of 24. Raises ConfigError."""
    sizes: list[int] = []
    for word in text.split(","):
        count, _, size = word.rpartition("x")
        try:
            sizes += [int(size)] * min(int(count) if count else 1, SITES_MAX + 1)
        except ValueError:
            sizes.append(0)
        if len(sizes) > SITES_MAX:
            break
    if not sizes or min(sizes) < 1 or max(sizes) > PROCESSORS_MAX or len(sizes) > SITES_MAX:
        raise ConfigError(
            f"--{option} {text} (expected processors of each site, for instance 4x32 or"
            f" 128,3x24: at most {SITES_MAX} sites of at most {PROCESSORS_MAX} each)"
        )
    return tuple(sizes)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Ask for the known word that is nearest to a misspelt one, in any case, after a list of all;
    empty if none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for an error

    by_lower = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), by_lower, n=1)
    return f"; did you mean {by_lower[near[0]]}?" if near else ""


def one_of(option: str, text: str, allowed: tuple[str, ...]) -> str:
    """Match a word against the allowed ones, in any case. Raises ConfigError."""
    return word_of(f"--{option}", text, allowed)


def word_of(named: str, text: str, allowed: tuple[str, ...]) -> str:
    """Match the word of an option or an argument, named as on the command line. Raises
    ConfigError."""
    for word in allowed:
        if word.lower() == text.lower():
            return word
    hint = did_you_mean(text, allowed)
    raise ConfigError(f"{named} {text} (expected one of {', '.join(allowed)}{hint})")


def known_name(option: str, text: str, known: Iterable[str], find: Callable[[str], object]) -> str:
    """Check the name of a function with `find`; known names match in any case. Raises
    ConfigError."""
    name = next((word for word in known if word.lower() == text.lower()), text)
    try:
        find(name)
    except ConfigError as error:
        detail = str(error).partition(repr(name))[2]
        raise ConfigError(f"--{option} {text}{detail}") from error
    return name
