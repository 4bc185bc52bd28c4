"""The deadlines paper: figures 1 to 9 and its claims.

- `simulation`: the model, and in `setting` its options.
- `points`: the runs.
- `sentences.toml`: the claims of the text, with their tests; `claims` reads them.
- `figures`: the figures.
"""

from koala.lab.papers.deadlines.claims import SENTENCES, same_loads
from koala.lab.papers.deadlines.figures import FIGURES
from koala.lab.papers.deadlines.points import LEVELS, READINGS, run

PAPER = SENTENCES.paper(
    run=run,
    figures=FIGURES,
    tested_at=LEVELS,
    readings=READINGS,
    readings_at={one: same_loads(one) for one in READINGS},
    diverging=("local_response",),
)
