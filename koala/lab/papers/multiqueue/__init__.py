"""The multiple-queues paper: ten job streams under thirteen disciplines (Multiple queues 3).

- `charts`: the policies that are compared in each case, and the utilisations.
- `maxima`: the maximal utilisations of the policies.
- `simulation`: the model, and in `setting` its options.
- `points`: runs a point.
- `sentences.toml`: the claims of the text, with their tests; `claims` reads them.
- `figures`: the figures.
"""

from koala.lab.papers.multiqueue.charts import BEYOND, CASES, HIGH, LOW, MIDDLE, NEAR
from koala.lab.papers.multiqueue.claims import SENTENCES
from koala.lab.papers.multiqueue.figures import FIGURES
from koala.lab.papers.multiqueue.maxima import table_1
from koala.lab.papers.multiqueue.points import run, saturation

PAPER = SENTENCES.paper(
    run=run,
    figures=FIGURES,
    tested_at={"quick": (MIDDLE, NEAR, BEYOND), "full": (LOW, MIDDLE, HIGH, NEAR, BEYOND)},
    ours=SENTENCES.texts["ours"].format(table_1=table_1(CASES)),
    diverging=("response.",),
    saturation=saturation,
)
