"""Parts of a campaign: folders with the runs that several machines made, put together.

A folder has `runs.jsonl`, a line for each finished run in the order of the campaign, and
`provenance.json`, the only file whose content depends on machine, time and number of workers.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from koala.common.runtime.atomic_file import write_atomically
from koala.errors import ConfigError
from koala.lab.sim.campaign.code import interpreter
from koala.lab.sim.campaign.execution import Campaign
from koala.lab.sim.campaign.provenance import environment, program
from koala.lab.sim.campaign.records import (
    FinishedRun,
    as_plain,
    from_plain,
    read_lines,
    write_lines,
)

RUNS, PROVENANCE = "runs.jsonl", "provenance.json"
FORM = 1
"""Version of both files."""
SAME = ("code", "interpreter")
"""Keys of the provenance that all parts must share, beside the options."""
Item = TypeVar("Item", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Runs that one machine has made, and their provenance."""

    folder: Path
    provenance: Mapping[str, Any]

    @property
    def options(self) -> dict[str, Any]:
        """Options that determine the results."""
        found: dict[str, Any] = self.provenance["options"]
        return found


def write_runs(folder: Path, rows: Iterable[tuple[Mapping[str, Any], FinishedRun]]) -> None:
    """Write a line for each finished run: what names it, and its outcome."""
    write_lines(folder / RUNS, ({**head, **as_plain(one.outcome)} for head, one in rows))


def write_provenance(
    folder: Path,
    made: Campaign[Any],
    *,
    options: Mapping[str, Any],
    code: str,
    wanted: int,
    merged: Sequence[Part] = (),
    **more: object,
) -> None:
    """Write everything about a result that is not the result itself."""
    document = {
        "form": FORM,
        "options": options,
        "koala": program(),
        "code": code,
        "interpreter": interpreter(),
        **environment(),
        **more,
        "runs": {"wanted": wanted, "finished": len(made.finished), "stored": made.stored},
        "interrupted": made.is_interrupted,
        "cpu_s": round(made.cpu_s, 3),
        "cpu_s_by_run": [round(one.cpu_s, 4) for _, one in made.finished],
        "parts": [one.provenance for one in merged],
    }
    write_atomically(folder / PROVENANCE, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def read_parts(folders: Sequence[Path]) -> tuple[Part, ...]:
    """Read the provenance of parts and check that they belong together. Raises ConfigError."""
    parts = tuple(Part(folder=one, provenance=_provenance(one)) for one in folders)
    first = parts[0]
    for part in parts[1:]:
        for name in dict.fromkeys((*first.options, *part.options, *SAME)):
            one, other = (
                found.provenance[name] if name in SAME else found.options.get(name)
                for found in (first, part)
            )
            if one != other:
                raise ConfigError(
                    f"{part.folder}: made with {name} {other}, and {first.folder} with {one}:"
                    " parts of one campaign share version and options"
                )
    return parts


def merge(
    items: Sequence[Item], ids: Sequence[str], parts: Sequence[Part], *, code: str
) -> Campaign[Item]:
    """Collect the runs of all parts in the order of the campaign. Raises ConfigError if they are of
    other code, or if a run is missing or differs between two parts."""
    if parts[0].provenance["code"] != code:
        raise ConfigError(
            f"{parts[0].folder}: its runs were made by another version of Koala"
            f" ({parts[0].provenance.get('koala')}): merge them with that version"
        )
    if parts[0].provenance["interpreter"] != interpreter():
        raise ConfigError(
            f"{parts[0].folder}: its runs were made by {parts[0].provenance['interpreter']}, and"
            f" this is {interpreter()} (expected the same)"
        )
    found = _runs(parts)
    if missing := [number for number, name in enumerate(ids, start=1) if name not in found]:
        have = ", ".join(str(part.provenance.get("part") or "all") for part in parts)
        raise ConfigError(
            f"--merge: {len(missing)} of {len(ids)} runs are missing, first number {missing[0]};"
            f" there are parts {have}"
        )
    return Campaign(
        finished=tuple((item, found[name]) for item, name in zip(items, ids, strict=True))
    )


def _runs(parts: Sequence[Part]) -> dict[str, FinishedRun]:
    found: dict[str, FinishedRun] = {}
    places: dict[str, Path] = {}
    for part in parts:
        path = part.folder / RUNS
        times = part.provenance["cpu_s_by_run"]
        for number, row in enumerate(read_lines(path)):
            try:
                name, outcome = row["id"], from_plain(row)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise ConfigError(f"{path}:{number + 1}: not a record of a finished run") from error
            cpu_s = times[number] if number < len(times) else 0.0
            if name in found and as_plain(found[name].outcome) != as_plain(outcome):
                text = f"{path}:{number + 1}: differs from the same run in {places[name]}"
                raise ConfigError(text)
            found[name] = FinishedRun(outcome=outcome, cpu_s=cpu_s, is_stored=True)
            places[name] = path
    return found


def _provenance(folder: Path) -> dict[str, Any]:
    path = folder / PROVENANCE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror} (expected folders of a part)"
        ) from error
    except ValueError as error:
        raise ConfigError(f"{path}: invalid JSON: {error}") from error
    kinds = {"options": dict, "cpu_s_by_run": list, **dict.fromkeys(SAME, str)}
    if (
        not isinstance(found, dict)
        or found.get("form") != FORM
        or not all(isinstance(found.get(name), kind) for name, kind in kinds.items())
    ):
        raise ConfigError(f"{path} is not a provenance of a campaign of this version")
    return found
