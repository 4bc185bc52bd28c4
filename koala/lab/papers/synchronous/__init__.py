"""The synchronous-queuing paper: figures 7 to 10 and its claims.

- `simulation`: the model; `options`, `command`: `koala simulate`.
- `points`: the runs.
- `claims`: the claims of the text; `quantities`: what they compare.
- `figures`: the figures.
"""

from koala.lab.papers.paper import Paper
from koala.lab.papers.synchronous.claims import SENTENCES
from koala.lab.papers.synchronous.figures import FIGURES
from koala.lab.papers.synchronous.points import LEVELS, READINGS, run
from koala.lab.sim.runs import Effort

PAPER = Paper(
    name="sq",
    title="A synchronous co-allocation mechanism for grid computing systems",
    run=run,
    length_unit="tasks",
    efforts={
        "quick": Effort(name="quick", replications=5, length=100, levels=LEVELS),
        "full": Effort(name="full", replications=8, length=1500, levels=LEVELS),
    },
    figures=FIGURES,
    claims=SENTENCES.claims,
    readings=READINGS,
    untestable=SENTENCES.untestable,
    measures="""\
Skews are means in seconds. The acceptance ratio, QoS conformance, effective cycles, conforming and
synchronous tasks are shares of 1. *rate* is the number of accepted tasks of a kind a second,
*ahead* the part of its duration by which the first subtask of a task ends early, *corrections*
their number per task, *stay* the time of a task in the system divided by its duration. *several*
are tasks of two subtasks or more.""",
    ours="""\
The length is that of the generators at a mean interarrival time of 500 s, in tasks of each kind; at
10 s they make three times as many. (The paper's make 1000 to 2000.) The paper prints neither what
local and best-effort tasks demand nor how a task is mapped, and equation (7) and figure 5 leave
open what is done in several cases. Ours: local and best-effort tasks have the work of a QoS task,
on one machine at random; subtasks go to the least loaded machines; figure 5's test is read as a
window; the dummy exists from the start and holds what is not allocated; what a queue leaves goes to
the others; what a machine cannot give back is corrected around the pivotal point. The skew is taken
both ways, by equation (2), as the mean over the cycles of a task, and as difference of finish
times. Conformance counts cycles of tasks, effective cycles count quanta, as section 5.1 defines
them; section 5.4 defines both for tasks, so there are claims for tasks as well. Tasks of one
subtask count in all means but those of tasks of two and more. The least loaded machines get the
subtasks whether or not they have room, because the paper passes no machine over: its controller
admits or refuses what the resource manager has mapped. To take the least loaded machines *with
room* is one of the readings. docs/simulation.md has the rest.""",
    levels="""\
The levels are the two of the paper's figures: tasks of each kind every 10 s, which overloads the
machines, and every 500 s. Both are what its charts show, so that both decide (rule 4). Claims about
the number of machines are judged at 5, 10, 15 and 25, under other readings at 5 and 15. A run ends,
so none counts as saturated.""",
)
