"""Published reproductions below docs/papers: publish one, and check that it can be made again.

`python -m tests.lab.papers.published FOLDER` publishes what `koala reproduce` wrote: provenance,
counts of verdicts, drawings, and the digests of some rows of `runs.jsonl`. Without a folder
all these rows are computed again and their digests compared (`make check-reproduction`).
"""

from __future__ import annotations

import csv
import hashlib
import importlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from shutil import copyfile
from typing import Any

from koala.lab.commands.reproduce import PAPERS
from koala.lab.papers.paper import Paper
from koala.lab.papers.sweep import Plan, plan
from koala.lab.sim.campaign.records import as_plain
from koala.lab.sim.runs import Run

FOLDER = Path(__file__).parents[3] / "docs" / "papers"
SAMPLE, PROVENANCE = "sample.jsonl", "provenance.json"
ROWS = 12
"""Rows that are published of a paper: those whose names have the least digests."""


def paper_of(name: str) -> Paper:
    """Load a paper by its name on the command line."""
    found: Paper = importlib.import_module(PAPERS[name]).PAPER
    return found


def published() -> tuple[Path, ...]:
    """List the folders of published reproductions. Raises FileNotFoundError where there is none."""
    folders = tuple(sorted(path.parent for path in FOLDER.glob(f"*/{PROVENANCE}")))
    if not folders:
        raise FileNotFoundError(FOLDER)
    return folders


def publish(source: Path) -> Path:
    """Copy a reproduction to the documents; return its folder there."""
    provenance = json.loads((source / PROVENANCE).read_text(encoding="utf-8"))
    assert not provenance["interrupted"], "it is not whole"
    provenance.pop("cpu_s_by_run")
    with (source / "claims.csv").open(encoding="utf-8") as file:
        verdicts = {row["claim"]: row["claim_verdict"] for row in csv.DictReader(file)}
    provenance["verdicts"] = Counter(verdicts.values())
    target: Path = FOLDER / provenance["options"]["paper"]
    target.mkdir(exist_ok=True)
    for old in target.iterdir():
        old.unlink()
    (target / PROVENANCE).write_text(f"{json.dumps(provenance, indent=1)}\n", encoding="utf-8")
    for drawing in source.glob("*.svg"):
        copyfile(drawing, target / drawing.name)
    lines = (source / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    sample = sorted(lines, key=lambda line: _digest(json.loads(line)["id"]))[:ROWS]
    (target / SAMPLE).write_text("".join(map(_published_row, sample)), encoding="utf-8")
    return target


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _published_row(line: str) -> str:
    """Return setting, seed and digest of a row. The name of a run is left out: it changes whenever
    a setting gets a field."""
    row = json.loads(line)
    row.pop("id")
    digest = _digest(json.dumps(row, allow_nan=False, ensure_ascii=False))
    row = {"setting": row["setting"], "seed": row["seed"], "sha256": digest}
    return f"{json.dumps(row)}\n"


def rows(folder: Path) -> Iterator[tuple[str, list[Run]]]:
    """Yield the digest of each published row of a paper, and the runs that may give it: settings of
    two kinds may be called the same."""
    options = json.loads((folder / PROVENANCE).read_text(encoding="utf-8"))["options"]
    runs = plan_of(options).runs()
    for line in (folder / SAMPLE).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        known = (row["setting"], row["seed"])
        yield row["sha256"], [run for run in runs if (str(run.setting), run.seed) == known]


def plan_of(options: Mapping[str, Any]) -> Plan:
    paper = paper_of(options["paper"])
    effort = replace(
        paper.efforts[options["effort"]], replications=options["reps"], length=options["length"]
    )
    return plan(paper, effort, seed=options["seed"])


def is_same(digest: str, runs: list[Run], paper: Paper) -> bool:
    """Compute a row again; return True if it is the same byte for byte."""
    return any(_digest(_computed(run, paper)) == digest for run in runs)


def _computed(run: Run, paper: Paper) -> str:
    row = {
        "setting": str(run.setting),
        "seed": run.seed,
        "length": run.effort.length,
        **as_plain(paper.run(run)),
    }
    return json.dumps(row, allow_nan=False, ensure_ascii=False)


def check() -> int:
    """Compute all published rows again; return the number of those that differ."""
    wrong = 0
    for folder in published():
        found = list(rows(folder))
        paper = paper_of(folder.name)
        different = [runs for digest, runs in found if not is_same(digest, runs, paper)]
        wrong += len(different)
        print(f"{folder.name}: {len(found)} rows computed again, {len(different)} differ")
        for runs in different:
            print(f"  {runs[0].setting}, seed {runs[0].seed}")
    return wrong


if __name__ == "__main__":
    folders = [Path(word) for word in sys.argv[1:]]
    for folder in folders:
        print(publish(folder))
    sys.exit(0 if folders else min(1, check()))
