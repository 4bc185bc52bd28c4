"""The KOALA paper: figures 1 to 5 and its claims.

- `simulation`: the model; `options`, `command`: `koala simulate`.
- `points`: the runs.
- `claims`, `claims_results` (section 5): the claims of the text.
- `claims_shared`: names of the measured quantities.
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
    measures="""\
Times are means in seconds, failures and utilisations percentages, tries and placements numbers
per job. *72x6* are jobs of 72 processors in six components, *high* and *low* are priorities. The
placement time is that from submission to the last placement, the start delay the last planned
start less the first one.""",
    ours="The paper prints none of these; what is ours, and why:\n\n"
    + "\n".join(f"- {name}: {why}." for name, why in OURS.items()),
    levels=f"""\
The levels are regular loads, what the sites' own users request. *Near saturation* is the load of
the experiment, {100 * EXPERIMENT.local_load:g} %, chosen so that 80 to 90 % of the processors are
busy at times, as in the paper's figure 2; then the placement queues are full for most of the run.
With 20 % a run comes closest to the day that the paper's experiment took. All figures are those
of the experiment.""",
)
