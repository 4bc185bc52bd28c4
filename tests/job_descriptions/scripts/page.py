"""The tables of docs/guides/scripts.md: what becomes of each option of a batch script.

`python -m tests.job_descriptions.scripts.page` rewrites them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from koala.job_descriptions.scripts.gridengine import QSUB
from koala.job_descriptions.scripts.oar import OARSUB
from koala.job_descriptions.scripts.options import Directives, Fate
from koala.job_descriptions.scripts.pbs import QSUB as PBS
from koala.job_descriptions.scripts.slurm import SBATCH

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "scripts.md"
KINDS = (SBATCH, QSUB, PBS, OARSUB)
GROUPED = {
    Fate.PASSED: "passed on as they are (`native`); a site with another batch system refuses them",
    Fate.TUNING: "passed on as they are (`native`); left out elsewhere, with a warning",
    Fate.LEFT_OUT: "without effect here",
}
BEFORE = {Fate.READ: "", Fate.REFUSED: "refused: ", Fate.LEFT_OUT: "left out: "}


def rows(kind: Directives) -> Iterator[tuple[str, str]]:
    """Cells of the rows of one batch system."""
    alone = [option for option in kind.options if option.note]
    for fate, before in BEFORE.items():
        for option in alone:
            if option.fate is fate:
                yield ", ".join(f"`{name}`" for name in option.names), before + option.note
        names = [
            " ".join(f"`{name}`" for name in option.names)
            for option in kind.options
            if option.fate is fate and not option.note
        ]
        if names:
            yield ", ".join(names), GROUPED[fate]
        if fate is Fate.READ:
            for passed in (Fate.PASSED, Fate.TUNING):
                names = [
                    " ".join(f"`{name}`" for name in option.names)
                    for option in kind.options
                    if option.fate is passed
                ]
                if names:
                    yield ", ".join(names), GROUPED[passed]


def table(kind: Directives) -> str:
    """The table of one batch system."""
    prefix = kind.prefixes[0]
    cells = [(f"`{prefix}` ({kind.title})", "becomes"), ("---", "---"), *rows(kind)]
    return "".join(f"| {name} | {becomes} |\n" for name, becomes in cells)


def written(page: str) -> str:
    """The page with the tables as they are."""
    for kind in KINDS:
        start = re.escape(f"| `{kind.prefixes[0]}` ({kind.title})")
        page = re.sub(rf"(?m)^{start}.*\n(?:\|.*\n)*", table(kind).replace("\\", r"\\"), page)
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
