"""Published reproductions below docs/papers: publish one, and check that it can be made again.

`python -m tests.lab.papers.published FOLDER` publishes what `koala reproduce` wrote: provenance,
some rows of `runs.jsonl`, and report, tables and drawings, which the code of today makes again from
all rows. Without a folder all published rows are computed again and compared byte for byte (`make
check-reproduction`).
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from koala.lab.commands.reproduce import PAPERS
from koala.lab.papers.judgement import report
from koala.lab.papers.paper import Paper
from koala.lab.papers.report import draw, write
from koala.lab.papers.sweep import Plan, plan, swept
from koala.lab.sim.campaign.parts import merge, read_parts
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
    target: Path = FOLDER / provenance["options"]["paper"]
    target.mkdir(exist_ok=True)
    for old in target.iterdir():
        old.unlink()
    (target / PROVENANCE).write_text(f"{json.dumps(provenance, indent=1)}\n", encoding="utf-8")
    _write_report(source, target)
    without_bitmaps(target)
    lines = (source / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    sample = sorted(lines, key=lambda line: _digest(json.loads(line)["id"]))[:ROWS]
    (target / SAMPLE).write_text("".join(map(_without_id, sample)), encoding="utf-8")
    return target


def without_bitmaps(target: Path) -> None:
    """Remove the PNG of each drawing and its link from a report."""
    text = (target / "report.md").read_text(encoding="utf-8")
    text = re.sub(r"\[PNG\]\([^)]*\), ", "", text)
    (target / "report.md").write_text(text, encoding="utf-8")
    for picture in target.glob("*.png"):
        picture.unlink()


def _write_report(source: Path, target: Path) -> None:
    """Write report, tables and drawings from the rows of a reproduction. A run takes hours, and the
    form of a report may have changed since."""
    parts = read_parts([source])
    wanted = plan_of(parts[0].options)
    runs = wanted.runs()
    made = merge(runs, wanted.ids(runs), parts, code=parts[0].provenance["code"])
    written = report(swept(wanted, made))
    write(written, target)
    draw(written, target, progress=lambda _: None)


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def _without_id(line: str) -> str:
    """Leave out the name of a run: it changes whenever a setting gets a field."""
    row = json.loads(line)
    row.pop("id")
    return f"{json.dumps(row, allow_nan=False, ensure_ascii=False)}\n"


def rows(folder: Path) -> Iterator[tuple[str, list[Run]]]:
    """Yield each published row of a paper, and the runs that may give it: settings of two kinds may
    be called the same."""
    options = json.loads((folder / PROVENANCE).read_text(encoding="utf-8"))["options"]
    runs = plan_of(options).runs()
    for line in (folder / SAMPLE).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        known = (row["setting"], row["seed"])
        yield line, [one for one in runs if (str(one.setting), one.seed) == known]


def plan_of(options: Mapping[str, Any]) -> Plan:
    paper = paper_of(options["paper"])
    effort = replace(
        paper.efforts[options["effort"]], replications=options["reps"], length=options["length"]
    )
    return plan(paper, effort, seed=options["seed"])


def is_same(line: str, runs: list[Run], paper: Paper) -> bool:
    """Compute a row again; return True if it is the same byte for byte."""
    return any(_computed(run, paper) == line for run in runs)


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
        different = [line for line, runs in found if not is_same(line, runs, paper)]
        wrong += len(different)
        print(f"{folder.name}: {len(found)} rows computed again, {len(different)} differ")
        for line in different:
            print(f"  {json.loads(line)['setting']}, seed {json.loads(line)['seed']}")
    return wrong


if __name__ == "__main__":
    folders = [Path(word) for word in sys.argv[1:]]
    for folder in folders:
        print(publish(folder))
    sys.exit(0 if folders else min(1, check()))
