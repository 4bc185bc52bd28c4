"""Results of `koala reproduce` and `koala simulate --plot`: figures, and claims with verdicts."""

from __future__ import annotations

import csv
import re
from itertools import groupby
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from koala.errors import RejectedError, SpecError
from koala.web.pages.viewer import Viewer, signed_in

FIGURES_MAX = 100
CLAIMS = "claims.csv"
_FIGURE = re.compile(r"\w[\w.-]{0,70}\.png", re.ASCII)
TONES = {"holds": "good", "fails": "bad"}
"""Colours of verdicts; others are in between."""


@signed_in
async def show(_: Request, viewer: Viewer) -> Response:
    """List the folders with results."""
    root = _root(viewer)
    names = await run_in_threadpool(_folders, root)
    return viewer.page("results.html", here="results", root=str(root), names=names)


@signed_in
async def folder(request: Request, viewer: Viewer) -> Response:
    """Show the figures and claims of one folder."""
    name = request.path_params["name"]
    path = await run_in_threadpool(_folder, _root(viewer), name)
    return viewer.page(
        "result.html",
        here="results",
        name=name,
        figures=await run_in_threadpool(_figures, path),
        claims=await run_in_threadpool(_claims, path / CLAIMS),
        tones=TONES,
    )


@signed_in
async def figure(request: Request, viewer: Viewer) -> Response:
    """Send one figure."""
    path = await run_in_threadpool(_folder, _root(viewer), request.path_params["name"])
    name = request.path_params["figure"]
    if name not in await run_in_threadpool(_figures, path):
        raise SpecError(f"no figure {name!r}")
    return FileResponse(path / name, media_type="image/png")


def _root(viewer: Viewer) -> Path:
    root = viewer.services.settings.results
    if root is None:
        raise RejectedError("no results are shown here: start `koala web --results DIR`")
    return root


def _folders(root: Path) -> list[str]:
    """Names of the folders with results; `.` is the root itself."""
    below = [path for path in sorted(root.iterdir()) if path.is_dir() and not path.is_symlink()]
    found = [path.name for path in below if _figures(path) or (path / CLAIMS).is_file()]
    return ["."] * bool(_figures(root)) + found


def _folder(root: Path, name: str) -> Path:
    """Find a listed folder: a name is compared, and never used as a path. Raises SpecError."""
    if name not in _folders(root):
        raise SpecError(f"no results {name!r}")
    return root / name


def _figures(path: Path) -> list[str]:
    names = sorted(one.name for one in path.iterdir() if _FIGURE.fullmatch(one.name))
    return names[:FIGURES_MAX]


def _claims(path: Path) -> list[dict[str, Any]]:
    """Read the claims with their comparisons; none if there is no such table."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        {"claim": claim, "section": section, "verdict": verdict, "rows": list(of_claim)}
        for (claim, section, verdict), of_claim in groupby(
            rows, key=lambda row: (row["claim"], row["section"], row["claim_verdict"])
        )
    ]
