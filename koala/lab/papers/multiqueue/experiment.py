"""The multiple-queues paper as a whole: its efforts, and what is ours."""

from __future__ import annotations

from koala.lab.papers.multiqueue.charts import BEYOND, CASES, COMMON_LIMIT, HIGH, LOW, MIDDLE, NEAR
from koala.lab.papers.multiqueue.claims import SENTENCES
from koala.lab.papers.multiqueue.figures import FIGURES
from koala.lab.papers.multiqueue.maxima import MAXIMA
from koala.lab.papers.multiqueue.points import WARMUP, Case, run, saturation
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


OURS = f"""\
The paper says that the utilisations of its charts are "high enough so that at least one of the
policies is close to the maximum utilization", and does not print them. Here the maximal utilisation
of each policy in each case was found beforehand by bisection, to 0.005 (`python -m
tests.lab.papers.maxima` does it again); a chart stands at 98 % of the least maximum among its
policies, rounded down to 0.005. The second charts of figures 9 to 14 stand half-way between the
least and the greatest maximum. Length of runs, warm-up (the first {100 * WARMUP:g} % of the jobs),
replications and seeds are ours, too. Utilisation is the offered gross load.

Table 1, with the maximal utilisations:

{table_1()}

Figures 1 and 2 show a log of the DAS that is not public; they are not reproduced, and D(q) is taken
as the paper gives it. Where a sentence can be read two ways, `docs/decisions` says which was
taken; what a claim was read as stands below it.
"""

MEASURES = """\
Numbers are mean response times, from arrival to departure, in mean service times. *total* is of all
jobs, *local* of those in local queues, *global* of those in the global queue. (90,0,0,10) is a mix:
the percentages of jobs of one, two, three and four components. *at 0.880* is the utilisation, the
offered gross load."""

LEVELS = f"""\
*Near saturation* are 98 % of a chart's limit (the least maximal utilisation among the policies
that the chart compares) and, for figures 9 to 14, the second utilisation. 80 % of the limit is
tested in every run, 60 % and 95 % in full ones. Runs at 60 and 80 % have a fifth of the length
given below, those at 95 % half of it, those of second charts twice as much. Claims that compare
cases with one another are tested at the same shares of {COMMON_LIMIT:.3f}, which all policies bear
in all balanced cases, or of the least limit of the charts that they compare. What is said of local
or global queues alone is tested below saturation only.

Numbers in the reasons beside failing claims are mean response times, in mean service times, from
nine runs of 150,000 jobs at 98 % of the charts' limits, whatever the length of this report's runs.
"""

PAPER = Paper(
    name="multiqueue",
    title="Priorities among multiple queues for processor co-allocation: a reproduction",
    run=run,
    length_unit="jobs",
    efforts={effort.name: effort for effort in (QUICK, FULL)},
    figures=FIGURES,
    claims=SENTENCES.claims,
    measures=MEASURES,
    ours=OURS,
    levels=LEVELS,
    diverging=("response.",),
    untestable=SENTENCES.untestable,
    saturation=saturation,
)
