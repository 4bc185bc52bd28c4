"""The multiple-queues paper as a whole: its efforts, and what is ours."""

from __future__ import annotations

from koala.lab.papers.multiqueue.charts import BEYOND, CASES, HIGH, LOW, MIDDLE, NEAR
from koala.lab.papers.multiqueue.claims import SENTENCES
from koala.lab.papers.multiqueue.figures import FIGURES
from koala.lab.papers.multiqueue.maxima import MAXIMA
from koala.lab.papers.multiqueue.points import Case, run, saturation
from koala.lab.papers.paper import Paper
from koala.lab.sim.runs import Effort

QUICK = Effort(name="quick", replications=6, length=25_000, levels=(MIDDLE, NEAR, BEYOND))
FULL = Effort(
    name="full", replications=20, length=150_000, levels=(LOW, MIDDLE, HIGH, NEAR, BEYOND)
)


def table_1() -> str:
    """Format the ten cases with the maximal utilisations of the policies, as Markdown."""
    columns = tuple(MAXIMA[CASES[0].mix, True])
    lines = [
        "| case | balanced | " + " | ".join(columns) + " |",
        "| --- | --- |" + " --: |" * len(columns),
    ]
    lines += [_row(case, columns) for case in CASES]
    return "\n".join(lines)


def _row(case: Case, columns: tuple[str, ...]) -> str:
    found = MAXIMA[case.mix, case.is_balanced]
    cells = [f"{found[policy]:.3f}" if policy in found else "" for policy in columns]
    balanced = "yes" if case.is_balanced else "no"
    return f"| {','.join(map(str, case.mix))} | {balanced} | {' | '.join(cells)} |"


PAPER = Paper(
    name="multiqueue",
    title="Priorities among multiple queues for processor co-allocation: a reproduction",
    run=run,
    length_unit="jobs",
    efforts={effort.name: effort for effort in (QUICK, FULL)},
    figures=FIGURES,
    claims=SENTENCES.claims,
    measures=SENTENCES.texts["measures"],
    ours=SENTENCES.texts["ours"].format(table_1=table_1()),
    levels=SENTENCES.texts["levels"],
    diverging=("response.",),
    untestable=SENTENCES.untestable,
    saturation=saturation,
)
