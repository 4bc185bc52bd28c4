"""The synchronous-queuing paper: figures 7 to 10 and its claims.

- `simulation`: the model, and in `setting` its options.
- `points`: the runs.
- `sentences.toml`: the claims of the text, with their tests; `claims` reads them.
- `figures`: the figures.
"""

from koala.lab.papers.paper import Paper
from koala.lab.papers.synchronous.claims import SENTENCES
from koala.lab.papers.synchronous.figures import FIGURES
from koala.lab.papers.synchronous.points import LEVELS, READINGS, run
from koala.lab.sim.runs import Effort

PAPER = Paper(
    name="sq",
    title="A synchronous co-allocation mechanism for grid computing systems",
    run=run,
    length_unit="tasks",
    efforts={
        "quick": Effort(name="quick", replications=5, length=100, levels=LEVELS),
        "full": Effort(name="full", replications=8, length=1500, levels=LEVELS),
    },
    figures=FIGURES,
    claims=SENTENCES.claims,
    readings=READINGS,
    untestable=SENTENCES.untestable,
    **SENTENCES.texts,
)
