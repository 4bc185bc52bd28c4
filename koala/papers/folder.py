"""Folder of a reproduction: raw runs and provenance beside the report, and the merge of parts.

- runs.jsonl: a line for each finished run, in the order of the plan.
- provenance.json: the only file whose content depends on machine, time and number of workers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from koala.errors import ConfigError
from koala.papers.paper import Run
from koala.papers.sweep import Plan
from koala.runtime.atomic_file import write_whole
from koala.runtime.provenance import environment, program
from koala.sim.campaign.code import interpreter
from koala.sim.campaign.making import Campaign
from koala.sim.campaign.records import Made, as_plain, from_plain, read_lines, write_lines

RUNS, PROVENANCE = "runs.jsonl", "provenance.json"
FORM = 1
"""Version of both files."""
SAME = ("code", "interpreter")
"""What all parts must have in common, beside the options."""
Options = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Runs of a plan that one machine has made, and their provenance."""

    folder: Path
    provenance: Mapping[str, Any]

    @property
    def options(self) -> Options:
        """Options that determine the results."""
        found: Options = self.provenance["options"]
        return found


def options_of(wanted: Plan) -> Options:
    """Return the options that determine the results of a plan."""
    return {
        "paper": wanted.paper.name,
        "effort": wanted.effort.name,
        "figure": wanted.figure,
        "seed": wanted.seed,
        "reps": wanted.effort.replications,
        "length": wanted.effort.length,
    }


def write_runs(wanted: Plan, made: Campaign[Run], folder: Path) -> None:
    """Write a line for each finished run."""
    runs = [run for run, _ in made.finished]
    rows = [
        {
            "id": name,
            "setting": str(run.setting),
            "seed": run.seed,
            "length": run.effort.length,
            **as_plain(one.outcome),
        }
        for name, (run, one) in zip(wanted.ids(runs), made.finished, strict=True)
    ]
    write_lines(folder / RUNS, rows)


def write_provenance(
    wanted: Plan,
    made: Campaign[Run],
    folder: Path,
    *,
    command: str,
    part: str | None = None,
    merged: Sequence[Part] = (),
    **times: object,
) -> None:
    """Write everything about a result that is not the result itself."""
    document = {
        "form": FORM,
        "command": command,
        "options": options_of(wanted),
        "part": part,
        "koala": program(),
        "code": wanted.code,
        "interpreter": interpreter(),
        **environment(),
        **times,
        "runs": {
            "wanted": len(wanted.runs()),
            "finished": len(made.finished),
            "stored": made.stored,
        },
        "interrupted": made.is_interrupted,
        "cpu_s": round(made.cpu_s, 3),
        "cpu_s_by_run": [round(one.cpu_s, 4) for _, one in made.finished],
        "parts": [one.provenance for one in merged],
    }
    write_whole(folder / PROVENANCE, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def read_parts(folders: Sequence[Path]) -> tuple[Part, ...]:
    """Read the provenance of parts and check that they belong together. Raises ConfigError."""
    parts = tuple(Part(folder=one, provenance=_provenance(one)) for one in folders)
    first = parts[0]
    for part in parts[1:]:
        for name in (*first.options, *SAME):
            one, other = (
                found.options[name] if name in found.options else found.provenance[name]
                for found in (first, part)
            )
            if one != other:
                raise ConfigError(
                    f"{part.folder}: made with {name} {other}, and {first.folder} with {one}:"
                    " parts of one reproduction share version and options"
                )
    return parts


def merge(wanted: Plan, parts: Sequence[Part]) -> Campaign[Run]:
    """Collect the runs of all parts in the order of the plan. Raises ConfigError if one is missing
    or differs between two parts."""
    runs = wanted.runs()
    found: dict[str, Made] = {}
    places: dict[str, Path] = {}
    for part in parts:
        path = part.folder / RUNS
        times = part.provenance["cpu_s_by_run"]
        for number, row in enumerate(read_lines(path)):
            try:
                name, outcome = row["id"], from_plain(row)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise ConfigError(f"{path}:{number + 1}: is no finished run") from error
            cpu_s = times[number] if number < len(times) else 0.0
            made = Made(outcome=outcome, cpu_s=cpu_s, is_stored=True)
            if name in found and as_plain(found[name].outcome) != as_plain(outcome):
                other = places[name]
                raise ConfigError(f"{path}:{number + 1}: differs from the same run in {other}")
            found[name], places[name] = made, path
    ids = wanted.ids(runs)
    if missing := [run for run, name in zip(runs, ids, strict=True) if name not in found]:
        have = ", ".join(str(part.provenance.get("part") or "all") for part in parts)
        raise ConfigError(
            f"--merge: {len(missing)} of {len(runs)} runs are missing, first {missing[0].setting}"
            f" with seed {missing[0].seed}; there are parts {have}"
        )
    return Campaign(finished=tuple((run, found[name]) for run, name in zip(runs, ids, strict=True)))


def _provenance(folder: Path) -> dict[str, Any]:
    path = folder / PROVENANCE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror}; allowed are folders of koala reproduce"
        ) from error
    except ValueError as error:
        raise ConfigError(f"{path}: is no JSON: {error}") from error
    needed = {"options", "cpu_s_by_run", *SAME}
    if not isinstance(found, dict) or found.get("form") != FORM or needed - found.keys():
        raise ConfigError(f"{path}: is no provenance of a reproduction of this version")
    return found
