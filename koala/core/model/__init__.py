"""Values and records of the core: what jobs, sites, events and actions consist of.

`job` holds a job, its attempts, members and claims, and the table of phases. `grid` holds sites and
the frozen `GridView` that policies see. `events` and `actions` are all that the core is told and
answers. `parameters` declares every parameter of the papers and ours. `timeline` is the arithmetic
of start and claiming times. `placement_queues`, `visiting` and `ageing` order waiting jobs.
"""
