"""Pictures of the laboratory, shown in notebooks and saved to files."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from koala.common.runtime.atomic_file import write_atomically
from koala.errors import ConfigError
from koala.lab.sim.drawing import STYLE, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing: `figure` is matplotlib's, to be changed further."""

    figure: Figure

    def save(self, path: str | Path) -> None:
        """Write it; the suffix chooses the format: .svg, .png or .pdf."""
        from matplotlib import style  # noqa: PLC0415 - takes longer to import than a short run

        with style.context(STYLE, after_reset=True):
            save(self.figure, Path(path))

    def _repr_png_(self) -> bytes:
        file = BytesIO()
        self.figure.savefig(file, format="png", dpi=100, metadata={"Software": None})
        return file.getvalue()

    def __repr__(self) -> str:
        return "a picture; .save(PATH) writes it"


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawing in SVG."""

    svg: str

    def save(self, path: str | Path) -> None:
        """Write it as a file, whose suffix is .svg. Raises ConfigError for another one."""
        if Path(path).suffix != ".svg":
            raise ConfigError(f"{path}: a Gantt chart has the suffix .svg")
        write_atomically(Path(path), self.svg)

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return "a drawing; .save(PATH) writes it"


def distribution(values: list[float], *, title: str, label: str) -> Picture:
    """Draw the share of values that are at most so large."""
    from matplotlib import style  # noqa: PLC0415 - takes longer to import than a short run
    from matplotlib.figure import Figure as Drawing  # noqa: PLC0415

    with style.context(STYLE, after_reset=True):
        drawing = Drawing(figsize=(5.0, 3.0), layout="constrained")
        axes = drawing.add_subplot()
        axes.ecdf(values)
        axes.set_xlabel(label)
        axes.set_ylabel("share of the jobs")
        axes.set_title(title)
    return Picture(drawing)
