"""Local resource managers (LRM), real or emulated, behind one interface.

local_manager     the interface that the agent uses
batch_system      the record of a kind of local manager, found by entry point
dialect           the commands and texts that one batch system must know
site_commands     the commands of a site's batch system, counted and spaced
batch             real batch systems: one manager, a dialect for each
emulated          a queue on the wall clock with real processes
gate_probe        two jobs that show what a gate does
gate_probe_result  what the last probe of gates has shown, on disk
outlook           expected starts of claims that are not asked for yet
job_table         the manager's jobs, on disk
launch            start of a program in the agent's account
claim_processes   identities and trees of the processes of claims

Invariants: no processor is given twice; a claim is submitted once, whatever is repeated; an ended
claim has no process left when its end is reported. Absent on purpose: barriers, leases and answers
to the daemon, which belong to the agent.
"""
