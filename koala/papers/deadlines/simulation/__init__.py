"""The deadlines paper's simulation: jobs with a required start on clusters with users of their own.

Clusters are the agents' local manager model under FCFS, which local users fill; global jobs have
components that must start together at their deadline D. Tries come at the instants of the Repeated
Placement Policy (koala.core.model.timeline), components are placed Worst-Fit, and who must make
room at D is chosen as live (koala.policies). A claim takes idle processors though a local job may
wait for more than are idle; those of a job that was claimed before D are held unused until then.

What is counted, in a window from the end of the warm-up to the end of the run: deadlines that
come in it, and how many of them are met; local jobs submitted in it, killed in it, completed in
it with their response times; and processor-seconds that pass in it. Counting what happens in the
window, not what becomes of the jobs that arrive in it, favours neither short leads nor short
responses at its ends.
"""

from koala.papers.deadlines.simulation.counting import (
    METRICS,
    Outcome,
    Record,
    Summary,
    Tally,
    summarize,
)
from koala.papers.deadlines.simulation.run import simulate, simulate_to_file
from koala.papers.deadlines.simulation.setting import Setting

__all__ = [
    "METRICS",
    "Outcome",
    "Record",
    "Setting",
    "Summary",
    "Tally",
    "simulate",
    "simulate_to_file",
    "summarize",
]
