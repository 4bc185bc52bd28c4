"""Local resource managers (LRM), real or emulated, behind one port.

port              the interface that the agent uses
batch             one manager for all real batch systems; `slurm` and `gridengine` are dialects
emulated          a queue on the wall clock with real processes
model             the pure model of a queue of N processors; the simulator uses it too
job_table         jobs on disk

Invariants: no processor is given twice; a claim is submitted once, whatever is repeated; an ended
claim has no process left when its end is reported. Absent on purpose: barriers, leases and answers
to the daemon, which belong to the agent.
"""
