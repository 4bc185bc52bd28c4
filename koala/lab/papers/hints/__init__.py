"""The hints paper: figure 2 and its claims.

- `simulation`: the model; `options`, `command`: `koala simulate`.
- `points`: the runs.
- `claims`: the claims of the text.
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
    measures="""\
*response* is a mean response time in seconds, from submission to end: of all jobs (`all`), of
I/O-bound (`io`) or CPU-bound ones (`cpu`). *stretch* is the run time divided by the one that the
length and the slice of a job promise, *remote* the share of jobs that run at another site,
*busiest_link* the mean use of the link that is used most, *below_preferred* the share of jobs below
the preferred rate. A percentage behind a policy is the share of I/O-bound jobs.""",
    ours="""\
The paper's table of the simulated grid is lost, and it prints neither the arrival rate, the number
of jobs, the preferred rate, the acceptable deviations, nor how often a job reads. Ours: three sites
of 3000, 4000 and 5000 MIPS with slices of at most 1200, 1600 and 2000, four jobs each, links of 12,
16 and 20 Mb/s to their storage and 6 Mb/s between each two; 300 Poisson arrivals at 0.00045 a
second, all of which count; a preferred rate of 1000 MIPS, of which hints accept the half; data that
are read as a stream. The grid's power is then 12,000 MIPS, of which jobs that insist on 1000 MIPS
can use 10,600 at most, and CPU-bound jobs alone ask for 11,250: their queue grows as long as jobs
arrive, which is the heavy load that the paper speaks of. The jobs, and the sites that submit them,
are the same under every policy; with another share of I/O-bound jobs only their kinds differ.
Numbers are those of runs of this length: response times under a heavy load grow with it.""",
    levels="""\
The levels are arrival rates. *Near saturation* is the heavy load of the paper's figure 2. At 0.0004
a second CPU-bound jobs alone ask for 10,000 MIPS, which is inside capacity; at 0.0003 hardly a job
waits. What the paper says of a share of I/O-bound jobs is tested at 20 % where it says 20 %, and at
0, 20, 40, 60, 80 and 100 % where it speaks of the chart over the share. A run ends, so none counts
as saturated.""",
)
