"""The KOALA paper: figures 2 to 5.

`points` is what is run, `figures` what is drawn.
"""

from koala.sim.das.setting import OURS, Setting
from koala.sim.papers.koala.figures import figures
from koala.sim.papers.koala.points import LEVELS, run
from koala.sim.papers.paper import Effort, Paper

PAPER = Paper(
    name="koala",
    title="KOALA: co-allocation over several clusters, with incremental claiming",
    run=run,
    efforts={
        "quick": Effort(name="quick", replications=10, length=500, levels=LEVELS),
        "full": Effort(name="full", replications=100, length=500, levels=LEVELS),
    },
    figures=figures(Setting()),
    claims=(),
    ours="The paper prints neither of these; what is ours, and why:\n\n"
    + "\n".join(f"- {name}: {why}." for name, why in OURS.items()),
    levels="The paper has one experiment, whose queues are full for most of its time.",
)
