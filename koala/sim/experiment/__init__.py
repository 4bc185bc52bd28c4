"""Experiments: the scheduler over a multicluster in simulated time, with nothing that is not
measured.

Faults of the protocol (sessions, leases, inventories, a daemon that crashes) have a world of their
own among the tests (`tests.swarm.system`), which has all parts of the system in it. Here messages
always arrive, so each action of the core is answered by what comes of it at the site: a claim is a
placeholder in the queue of the local manager, granted when it starts and withdrawn after the grace
time; a copy takes what its link needs. What fails is what the papers have failing: claims,
components, whole sites. `setting` says what there is, `sites` and `copies` answer, `world` drives,
`usage` counts processors. A run is a function of what it is given; whoever draws that from a seed
takes one generator for each purpose (`koala.workload.streams`).
"""
