"""Local resource managers (LRM): what stands between a claim and the processors of a site.

`port.py` is what the agent asks of any of them; `model.py` is the pure model of a queue of N
processors, which the simulator uses too; `emulated.py` is that model on the wall clock with real
processes. Invariants: no processor is given twice; a claim is submitted once whatever is repeated;
an ended claim has no process left when its end is told. Absent on purpose: barriers, leases and
answers to the daemon, which are the agent's, not the local manager's.
"""
