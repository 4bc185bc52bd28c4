"""Style of all figures, and how a figure is saved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from koala.common.runtime.atomic_file import atomic_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "legend.frameon": False,
}
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
"""Six colours that people with any colour vision can tell apart (Paul Tol's bright scheme)."""


def save(drawing: Drawing, path: Path) -> None:
    """Save a drawing reproducibly: the same drawing gives the same bytes."""
    from matplotlib import rc_context  # noqa: PLC0415 - takes longer to import than a short run

    dates = {".svg": {"Date": None}, ".png": {"Software": None}, ".pdf": {"CreationDate": None}}
    with (
        rc_context({"svg.hashsalt": "koala"}),  # ids of an SVG are random without it
        atomic_file(path) as part,
    ):
        drawing.savefig(part, dpi=150, metadata=dates.get(path.suffix))
