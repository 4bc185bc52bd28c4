"""The paper on malleable applications: its one claim at hand, and figures of our own questions.

- `simulation`: the model, and in `setting` its options.
- `points`: the runs.
- `sentences.toml`: the claims of the text, with their tests; `claims` reads them.
- `figures`: the figures.
"""

from koala.lab.papers.malleable.claims import SENTENCES
from koala.lab.papers.malleable.figures import FIGURES
from koala.lab.papers.malleable.points import LEVELS, READINGS, run
from koala.lab.papers.paper import Paper
from koala.lab.sim.runs import Effort

PAPER = Paper(
    name="malleable",
    title="Scheduling malleable applications in multicluster systems",
    run=run,
    length_unit="jobs",
    efforts={
        "quick": Effort(name="quick", replications=5, length=150, levels=LEVELS),
        "full": Effort(name="full", replications=10, length=300, levels=LEVELS),
    },
    figures=FIGURES,
    claims=SENTENCES.claims,
    readings=READINGS,
    untestable=SENTENCES.untestable,
    **SENTENCES.texts,
)
