"""Write published reports again after a change of their form, texts or claims, without the rows.

`python -m tests.lab.papers.republished NAME` reads the tables of a published reproduction. It makes
report, tables and drawings of them with the code of today, and makes the runs of comparisons and
chart points that the tables lack. What the tables have keeps its numbers; the runs that contradict
a claim about every run are those that the report lists. Drawings go to the
published folder as SVG, and as PNG to look at to the folder that it prints.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from math import inf, isfinite, nan
from pathlib import Path
from shutil import copyfile
from tempfile import mkdtemp

from koala.lab.papers.claim_table import mean_text
from koala.lab.papers.judgement import Report, report
from koala.lab.papers.paper import Comparison, Difference, Drawn, Part, parts_of
from koala.lab.papers.report import draw, write
from koala.lab.papers.results import Results
from koala.lab.papers.sweep import Plan, Swept, make_runs
from koala.lab.papers.verdicts import Verdict
from koala.lab.sim.campaign.execution import StoreChoice
from koala.lab.sim.runs import Quantity, Run, Setting
from koala.lab.sim.statistics import Interval
from tests.lab.papers.published import FOLDER, PROVENANCE, plan_of, without_bitmaps

Key = tuple[str, Part, tuple[Quantity, ...]]
"""Names a comparison: its text, its part, and what it compares."""
Contradicted = dict[tuple[str, str], dict[int, tuple[str, ...]]]
"""The notes of runs that contradict a comparison, by its level and text, and by seed."""
COUNTEREXAMPLE = re.compile(
    r"^- (?P<level>.+), seed (?P<seed>\d+): (?P<texts>not \*.+)\n(?P<notes>(?: {2,4}- .*\n)*)",
    re.MULTILINE,
)
MEAN = re.compile(r"(?:^| )(SAT|–|[-+.\de]+(?: ± [-+.\de]+)?)$")


class Tables(Results):
    """Results as published tables give them; of runs, where the tables lack something."""

    def __init__(self, wanted: Plan, folder: Path) -> None:
        super().__init__(())
        self._plan = wanted
        self._compared: dict[Key, Interval] = {}
        self._told: dict[tuple[Setting, str], Interval] = {}
        self._drawn: dict[Drawn, tuple[Interval, bool, int]] = {}
        published = (folder / "report.md").read_text(encoding="utf-8")
        self._refuted: dict[Key, dict[int, tuple[str, ...]]] = {}
        self._read_claims(folder / "claims.csv", _contradicted(published))
        for figure in wanted.figures:
            rows = _rows(folder / f"figure-{figure.number:02d}.csv")
            known = {(row["panel"], row["series"], row["x"], row["metric"]): row for row in rows}
            for panel in figure.panels:
                for name, x, one in panel.points:
                    row = known.get((panel.title, name, str(x), parts_of(one)[0].metric))
                    settings = " less ".join(str(part.setting) for part in parts_of(one))
                    if row is not None and row["setting"] == settings:
                        self._drawn[one] = _point(row)
                    elif isinstance(one, Difference) and (found := self.difference(one)):
                        self._drawn[one] = found, False, found.values

    def _read_claims(self, path: Path, contradicted: Contradicted) -> None:
        rows = {
            (row["claim"], row["level"], row["comparison"], row["part"]): row for row in _rows(path)
        }
        for claim in self._plan.claims:
            for level in (*self._plan.effort.levels, *self._plan.readings):
                for one in claim.at(level):
                    row = rows.get((claim.id, str(level), str(one), one.part))
                    if row is None:
                        continue
                    if one.is_of_every_run:
                        seeds = contradicted.get((str(level), str(one)), {})
                        if bool(seeds) == (row["verdict"] == Verdict.HOLDS):
                            continue  # its runs tell
                        self._refuted[_key(one)] = seeds
                    self._compared[_key(one)] = _contrast(row)
                    self._keep_means(one, row["means"])

    def _keep_means(self, one: Comparison, text: str) -> None:
        for quantity, word in zip(one.of, text.split("; "), strict=True):
            self._told.setdefault((quantity.setting, quantity.metric), _mean(word))

    def difference(self, wanted: Difference) -> Interval | None:
        """Return a difference that a claim compares: lower and higher are differences."""
        places = [(of.setting, of.metric) for of in wanted.of]
        for (text, _, of), found in self._compared.items():
            if wanted.is_relative or [(one.setting, one.metric) for one in of] != places:
                continue
            if text.endswith(f"{of[0]} > {of[1]}") and isfinite(found.mean):
                return found
            if text.endswith(f"{of[0]} < {of[1]}") and isfinite(found.mean):
                return replace(found, mean=-found.mean)
        return None

    def lacking(self) -> list[Run]:
        """List the runs that the tables do not replace."""
        wanted = self._plan
        levels = (*wanted.effort.levels, *wanted.readings)
        compared = (one for claim in wanted.claims for one in claim.comparisons(levels))
        quantities = chain(
            (of for one in compared if _key(one) not in self._compared for of in one.of),
            (
                of
                for figure in wanted.figures
                for panel in figure.panels
                for _, _, one in panel.points
                if one not in self._drawn
                for of in parts_of(one)
            ),
        )
        settings = {of.setting for of in quantities}
        return [run for run in wanted.runs() if run.setting in settings]

    def with_runs(self, runs: list[Run]) -> Tables:
        """Make these runs and add them."""
        paper = self._plan.paper
        made = make_runs(self._plan, runs, store=StoreChoice())
        Results.__init__(
            self,
            ((run, one.outcome) for run, one in made.finished),
            diverging=paper.diverging,
            saturation=paper.saturation,
        )
        return self

    def compared(self, one: Comparison) -> Interval:
        """Return the mean contrast of a comparison."""
        return self._compared.get(_key(one)) or super().compared(one)

    def contrasts(self, one: Comparison) -> dict[int, float]:
        """Return the contrast of a comparison by seed; of published runs, its sign."""
        refuted = self._refuted.get(_key(one))
        if refuted is None:
            return super().contrasts(one)
        seeds = {run.seed for run in self._plan.runs() if run.setting == one.of[0].setting}
        return {seed: -1.0 if seed in refuted else 1.0 for seed in sorted(seeds)}

    def notes(self, of: tuple[Quantity, ...], seed: int) -> tuple[str, ...]:
        """Return the notes of the runs of these quantities with this seed."""
        for (_, _, known), refuted in self._refuted.items():
            if known == of and seed in refuted:
                return refuted[seed]
        return super().notes(of, seed)

    def interval(self, quantity: Quantity) -> Interval:
        """Return the mean over the replications."""
        known = self._told.get((quantity.setting, quantity.metric))
        return known or super().interval(quantity)

    def drawn(self, one: Drawn) -> Interval:
        """Return the mean of what a chart shows."""
        return self._drawn[one][0] if one in self._drawn else super().drawn(one)

    def is_drawn_saturated(self, one: Drawn) -> bool:
        """True if a part of what a chart shows has no finite mean."""
        if one not in self._drawn:
            return super().is_drawn_saturated(one)
        diverging = self._plan.paper.diverging
        diverges = any(part.metric.startswith(diverging) for part in parts_of(one) if diverging)
        return diverges and self._drawn[one][1]

    def is_any_saturated(self, one: Drawn) -> bool:
        """True if a setting of what a chart shows is saturated."""
        return self._drawn[one][1] if one in self._drawn else super().is_any_saturated(one)

    def replications_of(self, one: Drawn) -> int:
        """Count the runs behind each setting of what a chart shows."""
        return self._drawn[one][2] if one in self._drawn else super().replications_of(one)


def _contradicted(report: str) -> Contradicted:
    """Read the counterexamples that a report lists, with their notes."""
    found: Contradicted = {}
    for one in COUNTEREXAMPLE.finditer(report):
        notes = one["notes"].replace("\n    - ", "; ").splitlines()
        for text in re.findall(r"not \*(.+?)\* \(", one["texts"]):
            of_seed = found.setdefault((one["level"], text), {})
            of_seed[int(one["seed"])] = tuple(note.removeprefix("  - ") for note in notes)
    return found


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _key(one: Comparison) -> Key:
    return str(one), one.part, one.of


def _contrast(row: Mapping[str, str]) -> Interval:
    """Read a contrast; where there is none, saturation decided or nothing could be compared."""
    values = int(row["replications"])
    if row["difference"]:
        width = float(row["ci95"]) if row["ci95"] else inf
        return Interval(mean=float(row["difference"]), ci95=width, values=values)
    decided = {Verdict.HOLDS: inf, Verdict.FAILS: -inf}
    is_decided = row["by_saturation"] == "yes"
    mean = decided[Verdict(row["verdict"])] if is_decided else nan
    return Interval(mean=mean, ci95=float(row["ci95"] or "inf"), values=values)


def _mean(word: str) -> Interval:
    """Read a mean as a report tells it."""
    found = MEAN.search(word)
    assert found, word
    text, _, width = found[1].partition(" ± ")
    mean = {"SAT": inf, "–": nan}.get(text)
    whole = Interval(
        mean=float(text) if mean is None else mean, ci95=float(width or "inf"), values=2
    )
    if mean_text(whole) == found[1]:
        return whole
    return replace(whole, ci95=whole.ci95 * (1 - 1e-6))  # 0.100 was 0.0996, with three decimals


def _point(row: Mapping[str, str]) -> tuple[Interval, bool, int]:
    is_saturated, values = row["saturated"] == "yes", int(row["replications"])
    mean = float(row["mean"]) if row["mean"] else inf if is_saturated else nan
    width = float(row["ci95"]) if row["ci95"] else inf
    return Interval(mean=mean, ci95=width, values=values), is_saturated, values


def republish(folder: Path) -> Path:
    """Write a published report again; return a folder with its drawings as PNG."""
    provenance = json.loads((folder / PROVENANCE).read_text(encoding="utf-8"))
    wanted = plan_of(provenance["options"])
    tables = Tables(wanted, folder)
    lacking = tables.lacking()
    print(f"{folder.name}: {len(lacking)} runs to make")
    found = _report(wanted, tables.with_runs(lacking))
    target = Path(mkdtemp(prefix=f"{folder.name}-"))
    write(found, target)
    draw(found, target, progress=lambda _: None)
    for path in target.iterdir():
        if path.suffix != ".png":
            copyfile(path, folder / path.name)
    without_bitmaps(folder)
    if lacking:
        provenance["runs"] |= {"wanted": found.wanted, "finished": found.finished}
        (folder / PROVENANCE).write_text(f"{json.dumps(provenance, indent=1)}\n", encoding="utf-8")
    return target


def _report(wanted: Plan, tables: Tables) -> Report:
    count = len(wanted.runs())
    return report(Swept(plan=wanted, results=tables, finished=count, is_interrupted=False))


def main(names: Iterable[str]) -> None:
    """Write the named reports again."""
    for name in names:
        print(republish(FOLDER / name))


if __name__ == "__main__":
    main(sys.argv[1:])
