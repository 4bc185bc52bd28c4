"""The paper on malleable applications: its one claim at hand, and figures of our own questions.

- `simulation`: the model, and in `setting` its options.
- `points`: the runs.
- `sentences.toml`: the claims of the text, with their tests; `claims` reads them.
- `figures`: the figures.
"""

from koala.lab.papers.malleable.claims import SENTENCES
from koala.lab.papers.malleable.figures import FIGURES
from koala.lab.papers.malleable.points import LEVELS, READINGS, run

PAPER = SENTENCES.paper(run=run, figures=FIGURES, tested_at=LEVELS, readings=READINGS)
