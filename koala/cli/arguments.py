"""Options and arguments that several commands share, their types, and the readers of their values.

Invalid input raises SpecError (exit status 2) naming the file or word and the allowed values.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar

import click
from click.core import ParameterSource

from koala.common.runtime.option_values import SENSIBLE, Bounds, is_sensible, word_of, written
from koala.errors import SpecError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

STANDARD_INPUT = "-"
TEXT_BYTES_MAX = 256 * 1024 * 1024

F = TypeVar("F", bound=Callable[..., Any])


class Number(click.ParamType[float]):
    """Number within bounds that calculations can use (`koala.common.runtime.option_values`)."""

    name = "number"
    kind: type[int] | type[float] = float
    expected = "a number"
    most: float = math.inf

    def __init__(
        self, low: float | None = None, high: float | None = None, *, above: float | None = None
    ) -> None:
        self.bounds = Bounds(low=low, high=high, above=above)

    @classmethod
    def within(cls, bounds: Bounds) -> Self:
        """Make the type of numbers within these bounds."""
        number_type = cls()
        number_type.bounds, number_type.most = bounds, math.inf
        return number_type

    def convert(
        self,
        value: Any,  # noqa: ANN401
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Convert a word. Raises SpecError with the allowed values."""
        named = _name_of(param)
        try:
            number = self.kind(value)
        except ValueError:
            raise SpecError(f"{named} {value!r} (expected {self.expected})") from None
        if isinstance(number, float) and not is_sensible(number):  # nor is nan
            raise SpecError(f"{named} {number} (expected {SENSIBLE})")
        if number > self.most:
            raise SpecError(f"{named} {number} (expected {self.most} at most)")
        if not self.bounds.has(number):
            within = str(self.bounds).replace(" or more", "")
            within = within if self.bounds.low is None else f"from {within}"
            raise SpecError(f"{named} {written(number)} (expected a number {within})")
        return number


class OneOf(click.ParamType[str]):
    """One of a few fixed words, in any case; also an enumeration of them."""

    name = "word"

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(str(word) for word in words)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Show the words."""
        return f"[{'|'.join(self.words)}]"

    def convert(
        self,
        value: Any,  # noqa: ANN401
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str:
        """Return the word as it is declared. Raises ConfigError."""
        return word_of(_name_of(param), value, self.words)

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:
        """Say what is allowed in the error about a missing argument."""
        return f"Allowed are {', '.join(self.words)}"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the words that begin like the incomplete one."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(word) for word in begun(self.words, incomplete)]


def _name_of(param: click.Parameter | None) -> str:
    """Name of an option or an argument in messages."""
    if param is None:
        return ""
    return param.opts[-1] if isinstance(param, click.Option) else (param.metavar or "").strip("[]")


class WholeNumber(Number):
    """Whole number within bounds."""

    name = "n"
    kind = int
    expected = "a whole number"
    most = 2**31 - 1  # messages to the daemon have no room for more


file = click.Path(path_type=Path)


NAMES = {"JOB": "job", "SITE": "site", "USER": "user"}
"""Metavars of options whose values the shell completes with names that the daemon knows."""


class Offered(TypedDict):
    """Attributes of an option or argument that the shell completes."""

    shell_complete: Callable[[click.Context, click.Parameter, str], list[str]]


def offered(*words: str, names_of: str = "") -> Offered:
    """Return the attributes of an option or argument that the shell completes: with these words, or
    with the names of jobs, sites or users that the daemon knows."""

    def complete(context: click.Context, _one: click.Parameter, incomplete: str) -> list[str]:
        from koala.cli import completion

        found = words or completion.names_of(names_of, context.meta.get("--address"))
        return begun(found, incomplete)

    return {"shell_complete": complete}


def _files_too(
    _context: click.Context, _one: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Let the shell complete the name of a file."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def begun(words: Iterable[str], incomplete: str) -> list[str]:
    """Return the words that begin like the incomplete one, in any case."""
    return [word for word in words if word.lower().startswith(incomplete.lower())]


def option(
    *names: str,
    help: str,  # noqa: A002
    words: Sequence[str] = (),
    unset: str = "",
    **attributes: Any,  # noqa: ANN401
) -> Callable[[F], F]:
    """Decorate a command with an option whose help text ends with its default and its bounds.

    `unset` says what happens without the option, where that is no value of `default`. The shell
    completes the option with `words`, or with names of what its metavar says.
    """
    if words or attributes.get("metavar") in NAMES:
        attributes |= offered(*words, names_of=NAMES.get(attributes.get("metavar") or "", ""))
    kind, default = attributes.get("type"), attributes.get("default")
    is_shown = default not in (None, "") and not isinstance(default, bool)
    shown = unset or (written(default) if is_shown else "")
    notes = [f"default: {shown}"] if shown else []
    if isinstance(kind, Number) and (bounds := str(kind.bounds)):
        notes.append(bounds)
    if isinstance(kind, OneOf) and "metavar" in attributes:
        notes.insert(0, f"one of {', '.join(kind.words)}")
    if attributes.get("multiple"):
        notes.append("may be repeated")
    if isinstance(kind, click.Path):
        attributes.setdefault("metavar", "PATH")
    return click.option(
        *names, help=f"{help}  [{'; '.join(notes)}]" if notes else help, **attributes
    )


def examples(*lines: str) -> Callable[[click.Command], click.Command]:
    """Decorate a command with lines that end its help text, each a way to call it."""

    def add(command: click.Command) -> click.Command:
        command.epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
        return command

    return add


def source_argument(*, required: bool = True) -> Callable[[F], F]:
    """Decorate a command with the file of a description; without one it is empty."""
    attributes: dict[str, Any] = {} if required else {"default": ""}
    metavar = "FILE|-" if required else "[FILE|-]"
    text = "The file; - is standard input."
    attributes["shell_complete"] = _files_too
    return click.argument("source", metavar=metavar, required=required, help=text, **attributes)


def daemon_options(command: F) -> F:
    """Decorate a command that calls the daemon: --json and --address, which those look up that use
    them (`koala.cli.output`, `koala.cli.requests`)."""
    return json_option(address_option(command))


def _keep(context: click.Context, one: click.Parameter, value: Any) -> None:  # noqa: ANN401
    """Keep the value for the whole command line: what a group was given holds for its command,
    unless that is given its own."""
    is_given = context.get_parameter_source(one.name or "") is ParameterSource.COMMANDLINE
    flag = one.opts[-1]
    context.meta[flag] = value if is_given else context.meta.get(flag, value)


address_option = option(
    "--address", envvar="KOALA_ADDRESS", show_envvar=True, metavar="HOST:PORT",
    callback=_keep, expose_value=False, help="Address of the daemon.",
    unset="that of your credentials, else of this machine",
)  # fmt: skip
json_option = option(
    "--json", is_flag=True, callback=_keep, expose_value=False,
    help="Print JSON instead of text.",
)  # fmt: skip
define_option = option(
    "-D", "--define", multiple=True, metavar="NAME=VALUE",
    help="Define a variable of the description.",
)  # fmt: skip
component_option = option(
    "-c", "--component", metavar="COMPONENT", help="Index or label of a component.", unset="all"
)
job_argument = click.argument(
    "job", help="The job's id, as submit printed it.", **offered(names_of="job")
)
jobs_argument = click.argument(
    "jobs",
    metavar="JOB...",
    nargs=-1,
    required=True,
    help="Ids of jobs.",
    **offered(names_of="job"),
)
site_argument = click.argument("site", help="The site's name.", **offered(names_of="site"))
state_dir_argument = click.argument("state_dir", type=file, help="The state directory of a daemon.")


def read_text(source: str) -> bytes:
    """Read a file, or standard input for `-`. Raises SpecError."""
    try:
        if source == STANDARD_INPUT:
            text = sys.stdin.buffer.read(TEXT_BYTES_MAX + 1)
        else:
            with Path(source).open("rb") as file:
                text = file.read(TEXT_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SpecError(
            f"cannot read {source!r}: {reason} (expected a readable file, or - for standard input)"
        ) from error
    if len(text) > TEXT_BYTES_MAX:
        raise SpecError(f"{source!r} is too long (expected at most {TEXT_BYTES_MAX} bytes)")
    return text


def chosen_component(name: str | None) -> str:
    """Return the component name of a request, where an empty text means all. Raises SpecError."""
    if name == "":  # typical of an unset shell variable
        raise SpecError(
            "--component '' (expected an index or a label); leave it out for all components"
        )
    return name or ""


UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def read_duration(option: str, text: str) -> float:
    """Parse a duration such as 90s, 30m, 12h, 7d or 0 into seconds. Raises SpecError."""
    number, unit = text[:-1], text[-1:]
    if text == "0":
        return 0.0
    if unit not in UNITS or not number.isascii() or not number.isdigit() or len(number) > 9:
        raise SpecError(f"{option} {text!r} (expected a number with s, m, h or d, as in 12h)")
    return int(number) * UNITS[unit]


def read_definitions(words: Iterable[str] | None, *, option: str = "-D") -> dict[str, str]:
    """Parse NAME=VALUE words; a value may be empty and may contain `=`. Raises SpecError."""
    definitions: dict[str, str] = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise SpecError(f"{option} {word!r} (expected NAME=VALUE, as in {option} STEPS=100)")
        if definitions.get(name, value) != value:
            raise SpecError(f"{option} {name} is given twice: {definitions[name]!r} and {value!r}")
        definitions[name] = value
    return definitions


def read_instant(option: str, text: str | None) -> float | None:
    """Parse an ISO 8601 instant, a time before now as 12h, or a day by name into epoch seconds.
    Raises SpecError."""
    from datetime import datetime, timedelta

    from koala.common.runtime.clock import unix_now

    if text is None:
        return None
    if text in ("today", "yesterday"):
        today = datetime.fromtimestamp(unix_now()).astimezone().date()
        text = str(today - timedelta(days=text == "yesterday"))
    if text[-1:] in UNITS and text[:-1].isdecimal():
        return unix_now() - read_duration(option, text)
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError) as error:
        raise SpecError(
            f"{option} {text} (expected a time before now, as 12h or 7d, today, yesterday, or an"
            " instant of ISO 8601, as 2026-11-21 or 2026-11-21T12:00:00Z; local time where no zone"
            " is named)"
        ) from error


FOLDER_VARIABLE = "HERE"
"""Variable of RSL that holds the folder of the description."""


def definitions_of(text: bytes, source: str, words: Iterable[str] | None) -> dict[str, str]:
    """Parse `-D` words; add the folder of the description where the text names that."""
    definitions = read_definitions(words)
    if source and b"$(" + FOLDER_VARIABLE.encode() in text:
        folder = Path.cwd() if source == STANDARD_INPUT else Path(source).resolve().parent
        definitions.setdefault(FOLDER_VARIABLE, str(folder))
    return definitions


class SourceError(SpecError):
    """Error in a text, prefixed with the name of its file."""

    def __init__(self, source: str, error: SpecError) -> None:
        self._source = "standard input" if source == STANDARD_INPUT else source
        super().__init__(error.message, error.position, error.others)

    def __str__(self) -> str:
        return f"{self._source}: {super().__str__()}"
