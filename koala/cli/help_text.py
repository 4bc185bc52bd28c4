"""Layout of help texts: lines break at blanks only."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click

HYPHEN = "\u2011"
"""Non-breaking hyphen, which stands for a hyphen while lines are broken."""
BLANK = "\u00a0"
"""Non-breaking blank, likewise."""
SHORT_NOTE = re.compile(r"\[(?:default|env var)[^]]{0,30}\]")
"""Note on a default, bounds or a variable that is more readable in one line."""


class BlankFormatter(click.HelpFormatter):
    """Writer of help texts that breaks lines at blanks only, never in `--retry-for`."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Write the usage line."""
        super().write_usage(prog, _unbroken(args), prefix)

    def write_text(self, text: str) -> None:
        """Write paragraphs."""
        super().write_text(_unbroken(text))

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 26, col_spacing: int = 2
    ) -> None:
        """Write terms with their descriptions."""
        unbroken = [(_unbroken(term), _unbroken(text)) for term, text in rows]
        super().write_dl(unbroken, col_max, col_spacing)

    def getvalue(self) -> str:
        """Return the text, with the usual hyphens and blanks."""
        return super().getvalue().replace(HYPHEN, "-").replace(BLANK, " ")


def _unbroken(text: str) -> str:
    """Replace what no line may break at: hyphens, and the blanks of a short note at the end."""
    noted = SHORT_NOTE.sub(lambda found: found.group().replace(" ", BLANK), text)
    return noted.replace("-", HYPHEN)


class HelpContext(click.Context):
    """Context whose help texts are written by a `BlankFormatter`."""

    formatter_class = BlankFormatter
