"""The deadlines paper: figures 1 to 9 and its claims.

- `simulation`: the model, and in `setting` its options.
- `points`: the runs.
- `sentences.toml`: the claims of the text, with their tests; `claims` reads them.
- `figures`: the figures.
"""

from koala.lab.papers.deadlines.claims import SENTENCES, same_loads
from koala.lab.papers.deadlines.figures import FIGURES
from koala.lab.papers.deadlines.points import LEVELS, READINGS, run
from koala.lab.papers.paper import Paper
from koala.lab.sim.runs import Effort

PAPER = Paper(
    name="deadlines",
    title="Simulating grid schedulers with deadlines and co-allocation",
    run=run,
    length_unit="seconds",
    efforts={
        "quick": Effort(name="quick", replications=10, length=200_000.0, levels=LEVELS),
        "full": Effort(name="full", replications=20, length=3_000_000.0, levels=LEVELS),
    },
    figures=FIGURES,
    claims=SENTENCES.claims,
    readings=READINGS,
    readings_at={one: same_loads(one) for one in READINGS},
    untestable=SENTENCES.untestable,
    **SENTENCES.texts,
    diverging=("local_response",),
)
