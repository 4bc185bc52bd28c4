"""The hints paper: figure 2 and its claims.

- `simulation`: the model; `options` of its command.
- `points`: the runs.
- `sentences.toml`: the claims of the text, with their tests; `claims` reads them.
- `figures`: the figures.
"""

from koala.lab.papers.hints.claims import SENTENCES
from koala.lab.papers.hints.figures import FIGURES
from koala.lab.papers.hints.points import LEVELS, READINGS, run
from koala.lab.papers.paper import Paper
from koala.lab.sim.runs import Effort

PAPER = Paper(
    name="hints",
    title="Application-specific hints in reconfigurable grid scheduling algorithms",
    run=run,
    length_unit="jobs",
    efforts={
        "quick": Effort(name="quick", replications=10, length=300, levels=LEVELS),
        "full": Effort(name="full", replications=100, length=300, levels=LEVELS),
    },
    figures=FIGURES,
    claims=SENTENCES.claims,
    readings=READINGS,
    untestable=SENTENCES.untestable,
    **SENTENCES.texts,
)
