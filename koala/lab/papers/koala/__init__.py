"""The KOALA paper: figures 1 to 5 and its claims.

- `simulation`: the model; `options` of its command.
- `points`: the runs.
- `sentences.toml`: the claims of the text, with their tests; `claims` reads them.
- `figures`: the figures.
"""

from koala.lab.papers.koala.claims import SENTENCES
from koala.lab.papers.koala.figures import figures, time_line
from koala.lab.papers.koala.points import BUSY, EXPERIMENT, LIGHT, MIDDLE, READINGS, run
from koala.lab.papers.koala.simulation.setting import OURS
from koala.lab.papers.paper import Paper
from koala.lab.sim.runs import ANY, Effort

PAPER = Paper(
    name="koala",
    title="KOALA: co-allocation over several clusters, with incremental claiming",
    run=run,
    length_unit="jobs",
    efforts={
        "quick": Effort(name="quick", replications=7, length=500, levels=(ANY, LIGHT, BUSY)),
        "full": Effort(name="full", replications=20, length=500, levels=(ANY, LIGHT, MIDDLE, BUSY)),
    },
    figures=(time_line(EXPERIMENT), *figures(EXPERIMENT)),
    claims=SENTENCES.claims,
    readings=READINGS,
    are_readings_quick=False,
    untestable=SENTENCES.untestable,
    **SENTENCES.texts,
    ours="The paper prints none of these; what is ours, and why:\n\n"
    + "\n".join(f"- {name}: {why}." for name, why in OURS.items()),
)
