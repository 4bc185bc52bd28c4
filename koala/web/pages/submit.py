"""Submit a job: its description, checked while it is typed, and what it may begin with.

That is a template, the description of another job, or what a form says: a program on these sites.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from koala.errors import KoalaError, RejectedError, SpecError
from koala.job_descriptions import evaluated_tree, write_document
from koala.views.records.grid import ReplicaFile, SiteStatus
from koala.web.pages.viewer import Viewer, action, form, signed_in, whole

TEMPLATES = {
    "pair": (
        "Two programs together",
        """\
name: pair
max_hold: 10m            # give back what waits longer for the rest
components:
  - {label: left,  executable: hostname, processors: 2, wall_time: 10m}
  - {label: right, executable: hostname, processors: 2, wall_time: 10m}
""",
    ),
    "script": (
        "A shell script",
        """\
name: script
components:
  - executable: sh
    arguments:
      - -c
      - |
        echo "process $KOALA_PROCESS on $(hostname)"
        sleep 10
    processors: 4
    wall_time: 10m
""",
    ),
    "mpi": (
        "One MPI world over two sites",
        """\
name: mpi
components:
  - {label: a, executable: ./solver, processors: 16, job_type: mpi, wall_time: 1h}
  - {label: b, executable: ./solver, processors: 16, job_type: mpi, wall_time: 1h}
distinct: yes            # on different sites
""",
    ),
    "busy": (
        "In the queues of busy sites",
        """\
name: busy
redundancy: 2            # each component waits at up to two sites, and runs at one
max_hold: 10m
components:
  - {label: left,  executable: hostname, processors: 16, wall_time: 1h}
  - {label: right, executable: hostname, processors: 16, wall_time: 1h}
""",
    ),
}
"""Templates by name: a word and a text."""
PLAIN = re.compile(
    r"(?!(?:true|false|yes|no|on|off|null|y|n)$)(?:\./|/)?[a-z][\w./-]*|\d+[smhd]",
    re.IGNORECASE | re.ASCII,
)
"""Texts that YAML reads as texts without quotes."""
SITES_MAX, FILES_MAX, ARGUMENTS_MAX = 100, 500, 200
TEXT_MAX = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Wish of the form: a program on some sites."""

    program: str = ""
    name: str = ""
    sites: tuple[str, ...] = ()
    processors: int = 1
    gpus: int = 0
    wall_time: str = ""
    file: str = ""

    @classmethod
    def of(cls, values: QueryParams) -> Wish:
        """Read the form from an address."""
        texts = {
            name: values.get(name, "").strip()[:TEXT_MAX]
            for name in ("program", "name", "wall_time", "file")
        }
        return cls(
            **texts,
            sites=tuple(dict.fromkeys(values.getlist("site")))[:SITES_MAX],
            processors=whole(values.get("processors"), low=1, high=10_000_000, default=1),
            gpus=whole(values.get("gpus"), low=0, high=100_000, default=0),
        )

    def text(self) -> str:
        """Write the description in YAML. Raises SpecError."""
        try:
            words = shlex.split(self.program)[: ARGUMENTS_MAX + 1]
        except ValueError as error:
            raise SpecError(f"program {self.program!r}: {error} (expected as in a shell)") from None
        if not words:
            raise SpecError("program: nothing is there (expected a command)")
        parts: dict[str, Any] = {"executable": words[0]}
        parts |= {"arguments": words[1:]} if words[1:] else {}
        parts |= {"processors": self.processors}
        parts |= {"gpus": self.gpus} if self.gpus else {}
        parts |= {"wall_time": self.wall_time} if self.wall_time else {}
        lines = [f"name: {json.dumps(self.name)}"] if self.name else []
        lines += [f"input_files: {json.dumps(self.file)}"] if self.file else []
        lines.append("components:")
        for site in self.sites or ("",):
            first, *others = ([("site", site)] if site else []) + list(parts.items())
            lines.append(f"  - {first[0]}: {_scalar(first[1])}")
            lines += [f"    {name}: {_scalar(value)}" for name, value in others]
        return "\n".join(lines) + "\n"


def _scalar(value: object) -> str:
    """Write a value in YAML: plain where nothing else could be meant, else as JSON has it."""
    return value if isinstance(value, str) and PLAIN.fullmatch(value) else json.dumps(value)


@signed_in
async def show(request: Request, viewer: Viewer) -> Response:
    """Show the page, with the text that the address wants."""
    values, error = request.query_params, None
    wish = Wish.of(values)
    text = TEMPLATES["pair"][1]
    try:
        if clone := values.get("clone"):
            found = await viewer.identity.model.show(clone)
            text = await run_in_threadpool(_as_yaml, found.description)
        elif values.get("template") in TEMPLATES:
            text = TEMPLATES[values["template"]][1]
        elif "program" in values:
            text = wish.text()
    except SpecError as mistake:
        error = _mistake(mistake)
    return await _page(viewer, text, wish, error)


async def _page(
    viewer: Viewer, text: str, wish: Wish, error: dict[str, object] | None, status: int = 200
) -> Response:
    model = viewer.identity.model
    await model.is_loaded.wait()
    return viewer.page(
        "submit.html",
        status=status,
        here="submit",
        text=text,
        wish=wish,
        error=error,
        sites=_offered(list(model.sites.values())[:SITES_MAX], wish.sites),
        gpus=any(site.gpus for site in model.sites.values()),
        files=await _files(viewer),
        templates={name: word for name, (word, _) in TEMPLATES.items()},
    )


def _offered(sites: Sequence[SiteStatus], chosen: Sequence[str]) -> list[dict[str, object]]:
    """Describe the sites that the form offers."""
    return [
        {
            "site": site.site,
            "is_chosen": site.site in chosen,
            "words": ", ".join(
                filter(
                    None,
                    (
                        f"{site.idle} of {site.processors} idle",
                        f"{site.idle_gpus} of {site.gpus} GPUs" if site.gpus else "",
                        site.system or "",
                        "" if site.state == "usable" else site.state,
                    ),
                )
            ),
        }
        for site in sites
    ]


async def _files(viewer: Viewer) -> list[ReplicaFile]:
    try:
        return (await viewer.identity.client.files())[:FILES_MAX]
    except KoalaError:  # the form goes without them
        return []


def _as_yaml(description: str) -> str:
    """Write a description of a job in YAML. Raises SpecError."""
    if not description:
        raise SpecError("this job has no description that could be cloned (expected another job)")
    return write_document(evaluated_tree(description, {}), as_json=False)


@action
async def check(request: Request, viewer: Viewer) -> Response:
    """Check a description as a dry run of a submission does."""
    text = (await form(request)).get("text", "")
    try:
        result = await viewer.identity.client.submit(text, dry_run=True)
    except (SpecError, RejectedError) as error:
        return JSONResponse({"is_good": False, **_mistake(error)})
    answer = {"is_good": True, "warnings": list(result.warnings), "expected": result.expected}
    return JSONResponse(answer)


@action
async def submit(request: Request, viewer: Viewer) -> Response:
    """Submit the description, and show the job."""
    values: Mapping[str, str] = await form(request)
    text = values.get("text", "")
    try:
        result = await viewer.identity.client.submit(text, key=values.get("key", "")[:256])
    except (SpecError, RejectedError) as error:
        return await _page(viewer, text, Wish(), _mistake(error), status=422)
    return viewer.go(f"/jobs/{result.job}")


def _mistake(error: SpecError | RejectedError) -> dict[str, object]:
    """Describe a mistake and its place in the text."""
    position = error.position if isinstance(error, SpecError) else None
    line, column = (position.line, position.column) if position is not None else (0, 0)
    return {"text": str(error), "line": line, "column": column}
