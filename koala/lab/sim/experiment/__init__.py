"""Experiments: the scheduler over a multicluster in simulated time, reduced to what is measured.

Faults of the protocol (sessions, leases, inventories, daemon crashes) are tested in
`tests.swarm.system`, which has all parts of the system. Here messages always arrive, so each action
of the core is answered by its outcome at the site:

- A claim is a placeholder in the queue of the local manager. It is granted when it starts and
  withdrawn after the grace time.
- A copy takes the time that its link needs.
- Faults are those of the papers: claims, components, whole sites.
- Components of malleable jobs come and go; the job's speed follows.

`setting` defines the parameters, `sites` and `copies` answer, `programs` run, `world` drives,
`usage` counts processors. A run is a function of its inputs; random inputs use one generator for
each purpose (`koala.lab.workload.random_streams`).
"""
