"""Options and arguments that several commands share, and the readers of their values.

Invalid input raises SpecError (exit status 2) naming the file or word and the allowed values.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from koala.errors import SpecError

STANDARD_INPUT = "-"
TEXT_BYTES_MAX = 256 * 1024 * 1024

Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        envvar="KOALA_ADDRESS",
        metavar="HOST:PORT",
        help="Address of the daemon.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Definitions = Annotated[
    list[str] | None,
    typer.Option(
        "-D", "--define", metavar="NAME=VALUE", help="Define a variable of the description."
    ),
]
Source = Annotated[str, typer.Argument(metavar="FILE|-", help="The file; - is standard input.")]
OptionalSource = Annotated[
    str, typer.Argument(metavar="FILE|-", help="The file; - is standard input.")
]
AnyPort = Annotated[
    bool, typer.Option("--any-port", help="Listen on a free port instead of the grid's.")
]
Component = Annotated[
    str | None,
    typer.Option(
        "-c", "--component", metavar="N", help="Index or label of a component; default: all."
    ),
]
JobName = Annotated[str, typer.Argument(metavar="JOB", help="The job's id, as submit printed it.")]


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
            f"cannot read {source!r}: {reason}; allowed is a readable file, or - for standard input"
        ) from error
    if len(text) > TEXT_BYTES_MAX:
        raise SpecError(f"{source!r} is too long: at most {TEXT_BYTES_MAX} bytes are allowed")
    return text


def chosen_component(name: str | None) -> str:
    """Component name of a request, where an empty text means all. Raises SpecError."""
    if name == "":  # typical of an unset shell variable
        raise SpecError("--component '': allowed is an index or a label; without it all are meant")
    return name or ""


UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def read_duration(option: str, text: str) -> float:
    """Parse a duration such as 90s, 30m, 12h, 7d or 0 into seconds. Raises SpecError."""
    number, unit = text[:-1], text[-1:]
    if text == "0":
        return 0.0
    if unit not in UNITS or not number.isascii() or not number.isdigit() or len(number) > 9:
        raise SpecError(f"{option} {text!r}: allowed is a number with s, m, h or d, as in 12h")
    return int(number) * UNITS[unit]


def read_definitions(words: Iterable[str] | None) -> dict[str, str]:
    """Parse `-D NAME=VALUE` words; a value may be empty and may contain `=`. Raises SpecError."""
    definitions: dict[str, str] = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise SpecError(f"-D {word!r}: allowed is NAME=VALUE, as in -D EXAMPLES=/opt/examples")
        if definitions.get(name, value) != value:
            raise SpecError(f"-D {name} is given twice: {definitions[name]!r} and {value!r}")
        definitions[name] = value
    return definitions


class SourceError(SpecError):
    """Error in a text, prefixed with the name of its file."""

    def __init__(self, source: str, error: SpecError) -> None:
        self._source = "standard input" if source == STANDARD_INPUT else source
        super().__init__(error.message, error.position, error.others)

    def __str__(self) -> str:
        return f"{self._source}: {super().__str__()}"
