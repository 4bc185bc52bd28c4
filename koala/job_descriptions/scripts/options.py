"""Options of batch scripts' directives: a table for each system, and the splitting of words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from koala.errors import Position, SpecError
from koala.job_descriptions.scripts.draft import Draft, Reader


class Fate(StrEnum):
    """Treatment of an option."""

    READ = "read"
    """It becomes attributes of the component."""
    PASSED = "passed on"
    """It becomes part of `native`; a site of another kind refuses it."""
    TUNING = "passed on, elsewhere left out"
    """It becomes part of `native` at a site of its own kind; the program runs without it, too."""
    LEFT_OUT = "left out"
    """It changes nothing of what runs here; users are told where it may surprise them."""
    REFUSED = "refused"
    """Something else would run without it."""


class Values(StrEnum):
    """Values of an option."""

    NONE = "none"
    ONE = "one"
    TWO = "two"
    MAYBE = "one after ="
    """It may have one, in the same word: `--exclusive=user`."""


@dataclass(frozen=True, slots=True)
class Option:
    """A row of a table of options.

    `names` are all of them, the usual one first. `note` says what it is read as, why it is left
    out, or what to do instead; an option that is left out without one needs no word.
    """

    names: tuple[str, ...]
    fate: Fate
    note: str = ""
    read: Reader | None = None
    values: Values = Values.ONE

    @property
    def name(self) -> str:
        """Return its usual name."""
        return self.names[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """An option in a script, with its value or values, and its place."""

    option: Option
    value: str
    position: Position

    @property
    def native(self) -> list[str]:
        """Return its words as a job passes them on."""
        if self.option.name.startswith("--"):
            return [f"{self.option.name}={self.value}" if self.value else self.option.name]
        return [self.option.name, *([self.value] if self.value else [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of directives: what follows the prefix, which ends before `column`."""

    text: str
    position: Position

    def at(self, offset: int) -> Position:
        """Return the position of a character of `text`."""
        start = self.position
        return Position(line=start.line, column=start.column + offset, source=start.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Directives:
    """The directives of a batch system in a script: lines that begin with one of `prefixes`.

    - `title` is the name of the batch system for people, as sites tell it.
    - `parts` splits lines into the options of each component, in the order in which they count.
    - `replaced` finds what the batch system replaces in names of files for output.
    - `is_whole`: lines after the first command count, too.
    - `finish` checks what several options say together, or completes it.
    - `variables` are those that jobs read, with their meanings: "folder" of the submission, a
      count ("tasks", "processors", "cpus_per_task", "hosts", "tasks_per_host"), the variable of
      Koala that has the same, or nothing.
    """

    title: str
    prefixes: tuple[str, ...]
    options: tuple[Option, ...]
    parts: Callable[[list[Line]], Iterator[list[Use]]]
    replaced: re.Pattern[str]
    is_whole: bool = False
    finish: Callable[[Draft], None] = lambda _draft: None
    variables: Mapping[str, str] = field(default_factory=dict)


def by_name(options: tuple[Option, ...]) -> dict[str, Option]:
    """Return the options by each of their names."""
    return {name: option for option in options for name in option.names}


def long_option(options: dict[str, Option], name: str, position: Position) -> Option:
    """Find an option by a long name or the beginning of one, as getopt_long does. Raises
    SpecError."""
    if (exact := options.get(name)) is not None:
        return exact
    begun = {word: option for word, option in options.items() if word.startswith(name)}
    if len({option.names for option in begun.values()}) == 1 and name.startswith("--"):
        return next(iter(begun.values()))
    if begun and name.startswith("--"):
        raise SpecError(f"{name} is ambiguous: expected one of {', '.join(begun)}", position)
    raise SpecError(f"unknown option {name}: what it changes is not known here", position)


def rows(fate: Fate, names: str, values: Values = Values.ONE) -> tuple[Option, ...]:
    """Make the rows of options that need no note, from their names: `--exclude,-x --tmp`."""
    return tuple(Option(tuple(each.split(",")), fate, values=values) for each in names.split())


def getopt(words: list[tuple[str, Position]], options: dict[str, Option]) -> Iterator[Use]:
    """Split words into options as getopt_long does. Raises SpecError."""
    left = list(reversed(words))
    while left:
        word, position = left.pop()
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word.partition("=")
            option = long_option(options, name, position)
            if equals and option.values is Values.NONE:
                raise SpecError(f"{name}: found the value {value!r}, expected none", position)
            if not equals and option.values is Values.ONE:
                value = _next(left, name, position)
            yield Use(option=option, value=value, position=position)
        elif word.startswith("-") and word not in ("-", "--"):
            yield from _letters(word[1:], left, options, position)
        else:
            raise SpecError(f"{word!r} is not an option", position)


def _letters(
    letters: str, left: list[tuple[str, Position]], options: dict[str, Option], position: Position
) -> Iterator[Use]:
    """Split the letters of `-Qn4`."""
    while letters:
        name, letters = f"-{letters[0]}", letters[1:]
        option = long_option(options, name, position)
        value = ""
        if option.values is not Values.NONE:
            value, letters = letters, ""
        if option.values is Values.ONE and not value:
            value = _next(left, name, position)
        yield Use(option=option, value=value, position=position)


def _next(left: list[tuple[str, Position]], name: str, position: Position) -> str:
    if not left:
        raise SpecError(f"{name}: found no value, expected one", position)
    return left.pop()[0]
