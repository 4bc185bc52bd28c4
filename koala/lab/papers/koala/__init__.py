"""The KOALA paper: figures 1 to 5 and its claims.

- `simulation`: the model, and in `setting` its options.
- `points`: the runs.
- `sentences.toml`: the claims of the text, with their tests; `claims` reads them.
- `figures`: the figures.
"""

from koala.lab.papers.koala.claims import SENTENCES
from koala.lab.papers.koala.figures import figures, time_line
from koala.lab.papers.koala.points import BUSY, EXPERIMENT, LIGHT, MIDDLE, READINGS, run
from koala.lab.papers.koala.simulation.setting import OURS
from koala.lab.sim.runs import ANY

PAPER = SENTENCES.paper(
    run=run,
    figures=(time_line(EXPERIMENT), *figures(EXPERIMENT)),
    tested_at={"quick": (ANY, LIGHT, BUSY), "full": (ANY, LIGHT, MIDDLE, BUSY)},
    readings=READINGS,
    are_readings_quick=False,
    ours="The paper prints none of these; what is ours, and why:\n\n"
    + "\n".join(f"- {name}: {why}." for name, why in OURS.items()),
)
