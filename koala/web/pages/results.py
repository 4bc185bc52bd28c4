"""Results of `koala reproduce` and `koala simulate --plot`: figures, and claims with verdicts.

The folder may be one where others write, so links are not followed, and its tables are read as
texts from outside.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import AsyncIterator
from itertools import groupby
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from koala.common.files.confined_folder import Descriptor, Folder, UnusableFileError
from koala.errors import RejectedError, SpecError
from koala.web.answers import PART_BYTES
from koala.web.pages.viewer import Viewer, signed_in

FIGURES_MAX = 100
CLAIMS = "claims.csv"
CLAIMS_BYTES_MAX = 1_000_000
COMPARISONS_MAX = 2_000
COLUMNS = (
    *("claim", "section", "claim_verdict", "comparison"),
    *("difference", "ci95", "replications"),
)
"""Columns of the table that the page shows; others are left out."""
ROOT = "."
"""Name of the folder itself, where it has figures."""
_FIGURE = re.compile(r"\w[\w.-]{0,70}\.png", re.ASCII)
TONES = {"holds": "good", "fails": "bad"}
"""Colours of verdicts; others are in between."""


@signed_in
async def show(_: Request, viewer: Viewer) -> Response:
    """List the folders with results."""
    root = _root(viewer)
    names = await run_in_threadpool(_folders, root)
    return viewer.page("results.html", here="results", root=str(root.path), names=names)


@signed_in
async def folder(request: Request, viewer: Viewer) -> Response:
    """Show the figures and claims of one folder."""
    root, name = _root(viewer), request.path_params["name"]
    place = await run_in_threadpool(_place, root, name)
    claims, trouble = await run_in_threadpool(_claims, root, place)
    return viewer.page(
        "result.html",
        here="results",
        name=name,
        figures=_figures((await run_in_threadpool(root.entries, place))[1]),
        claims=claims,
        claims_trouble=trouble,
        tones=TONES,
    )


@signed_in
async def figure(request: Request, viewer: Viewer) -> Response:
    """Send one figure."""
    root, name = _root(viewer), request.path_params["figure"]
    place = await run_in_threadpool(_place, root, request.path_params["name"])
    if not _FIGURE.fullmatch(name):
        raise SpecError(f"no figure {name!r}")
    try:
        content = await run_in_threadpool(root.open, _below(place, name))
    except UnusableFileError as error:
        raise SpecError(f"no figure {name!r}: {error}") from None
    request.state.held.callback(content.close)
    size = content.stamp().size_bytes
    return StreamingResponse(
        _parts(content, size), media_type="image/png", headers={"content-length": str(size)}
    )


async def _parts(content: Descriptor, size: int) -> AsyncIterator[bytes]:
    for start in range(0, size, PART_BYTES):
        yield await run_in_threadpool(content.read, min(PART_BYTES, size - start), start)


def _root(viewer: Viewer) -> Folder:
    root = viewer.services.settings.results
    if root is None:
        raise RejectedError("no results are shown here: start `koala web --results DIR`")
    return Folder(root)


def _folders(root: Folder) -> list[str]:
    """Names of the folders with results, the root itself first."""
    names, files = root.entries()
    return [ROOT] * bool(_figures(files)) + [name for name in names if _has_results(root, name)]


def _has_results(root: Folder, name: str) -> bool:
    try:
        files = root.entries(name)[1]
    except UnusableFileError:  # gone, or a link by now
        return False
    return bool(_figures(files)) or CLAIMS in files


def _place(root: Folder, name: str) -> str:
    """Return the place of a listed folder below the root; empty is the root. Raises SpecError."""
    if name not in _folders(root):
        raise SpecError(f"no results {name!r}")
    return "" if name == ROOT else name


def _below(place: str, name: str) -> str:
    return f"{place}/{name}" if place else name


def _figures(files: list[str]) -> list[str]:
    return [name for name in files if _FIGURE.fullmatch(name)][:FIGURES_MAX]


def _claims(root: Folder, place: str) -> tuple[list[dict[str, Any]], str]:
    """Read the claims with their comparisons, and what is wrong with their table; neither if there
    is no such table."""
    if CLAIMS not in root.entries(place)[1]:
        return [], ""
    try:
        rows = _rows(root, _below(place, CLAIMS))
    except (SpecError, UnusableFileError) as error:
        return [], str(error)
    return [
        {"claim": claim, "section": section, "verdict": verdict, "rows": list(of_claim)}
        for (claim, section, verdict), of_claim in groupby(
            rows, key=lambda row: (row["claim"], row["section"], row["claim_verdict"])
        )
    ], ""


def _rows(root: Folder, name: str) -> list[dict[str, str]]:
    """Read a table of claims. Raises SpecError, UnusableFileError."""
    content = root.open(name)
    try:
        data = content.read(CLAIMS_BYTES_MAX + 1, 0)
    finally:
        content.close()
    if len(data) > CLAIMS_BYTES_MAX:
        raise SpecError(f"{name} is too long (expected at most {CLAIMS_BYTES_MAX} bytes)")
    try:
        table = csv.DictReader(io.StringIO(data.decode(), newline=""), strict=True)
        rows = list(table)
    except (UnicodeDecodeError, csv.Error) as error:
        raise SpecError(f"{name} is not a table: {error} (expected CSV in UTF-8)") from None
    if missing := [column for column in COLUMNS if column not in (table.fieldnames or ())]:
        expected = ", ".join(COLUMNS)
        raise SpecError(f"{name} has no column {missing[0]} (expected {expected}, and others)")
    if len(rows) > COMPARISONS_MAX:
        raise SpecError(f"{name} has {len(rows)} lines (expected at most {COMPARISONS_MAX})")
    for number, row in enumerate(rows, 1):
        if None in row or None in row.values():
            raise SpecError(f"{name}: row {number} has not as many cells as the table has columns")
    return rows
