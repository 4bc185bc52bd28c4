"""The deadlines paper: figures 1 to 9 and its claims.

- `simulation`: the model; `options`, `command`: `koala simulate`.
- `points`: the runs.
- `claims`, `claims_model` (sections 2 and 3.1), `claims_rpp` (3.2), `claims_wait` (3.3): the claims
  of the text.
- `figures`: the figures.
- `quantities`: measured quantities, loads and comparisons that claims share.
"""

from koala.lab.papers.deadlines.claims import SENTENCES
from koala.lab.papers.deadlines.figures import FIGURES
from koala.lab.papers.deadlines.points import LEVELS, READINGS, run
from koala.lab.papers.deadlines.quantities import same_loads
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
    measures="""\
*success* is the percentage of global jobs that start at their deadline, *failed* of those that do
not. *killed* is that of the local jobs submitted, or of those that ended. Loads and *wasted*
(claimed before the deadline) are percentages of all processors. *local response* is the mean
response time of local jobs in seconds, *tries* the number of tries per job.""",
    ours="""\
The paper prints neither the length of a run, the warm-up, the number of replications, nor Mp, the
points on its axes, or what happens to killed local jobs. Ours are: the length below, of which the
first tenth is not counted; Mp = 10; killed local jobs are lost, the youngest are killed first and
no more than needed. The arrival rates stand for requested global loads of 5 to 50 %. In figures 5
and 6, and in claims about the lead, all jobs of a run have the same lead; else it is uniform on
[1, 3599] s. Under GP a job that its tries did not place is tried once more at its deadline, then
local jobs are killed for it; under LP it has failed after its last try. Where the paper names no
Wait-X, it is Wait-∞ with Lp = 0.7, as in its figure 1, and GP.""",
    levels="""\
The levels are requested loads, local and global. The paper's low local load is 30 % and its high
one 60 %; its global loads are 20 and 40 %, to which we add 10 %. *Near saturation* are those with
70 % or more in sum: FCFS queues of local jobs alone are saturated at 75 %, and claimed processors
that wait for their deadline come on top. A setting counts as saturated when its local queues keep
on growing; then only the response time of local jobs has no mean.""",
    diverging=("local_response",),
)
