"""The hints paper: figure 2 and its claims.

- `simulation`: the model, and in `setting` its options.
- `points`: the runs.
- `sentences.toml`: the claims of the text, with their tests; `claims` reads them.
- `figures`: the figures.
"""

from koala.lab.papers.hints.claims import SENTENCES
from koala.lab.papers.hints.figures import FIGURES
from koala.lab.papers.hints.points import LEVELS, READINGS, run

PAPER = SENTENCES.paper(run=run, figures=FIGURES, tested_at=LEVELS, readings=READINGS)
