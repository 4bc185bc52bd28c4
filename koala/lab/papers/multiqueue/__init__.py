"""The multiple-queues paper: ten job streams under thirteen disciplines (Multiple queues 3).

- `charts`: the policies that are compared in each case, and the utilisations.
- `maxima`: the maximal utilisations of the policies.
- `simulation`: the model; `options` of its command.
- `points`: runs a point.
- `sentences.toml`: the claims of the text, with their tests; `claims` reads them.
- `figures`: the figures.
"""

from koala.lab.papers.multiqueue.charts import BEYOND, CASES, HIGH, LOW, MIDDLE, NEAR
from koala.lab.papers.multiqueue.claims import SENTENCES
from koala.lab.papers.multiqueue.figures import FIGURES
from koala.lab.papers.multiqueue.maxima import table_1
from koala.lab.papers.multiqueue.points import run, saturation
from koala.lab.papers.paper import Paper
from koala.lab.sim.runs import Effort

PAPER = Paper(
    name="multiqueue",
    title="Priorities among multiple queues for processor co-allocation: a reproduction",
    run=run,
    length_unit="jobs",
    efforts={
        "quick": Effort(name="quick", replications=6, length=25_000, levels=(MIDDLE, NEAR, BEYOND)),
        "full": Effort(
            name="full", replications=20, length=150_000, levels=(LOW, MIDDLE, HIGH, NEAR, BEYOND)
        ),
    },
    figures=FIGURES,
    claims=SENTENCES.claims,
    measures=SENTENCES.texts["measures"],
    ours=SENTENCES.texts["ours"].format(table_1=table_1(CASES)),
    levels=SENTENCES.texts["levels"],
    diverging=("response.",),
    untestable=SENTENCES.untestable,
    saturation=saturation,
)
