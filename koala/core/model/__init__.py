"""Values and records of the core: what jobs, sites, events and actions consist of.

- `job_spec`: the request for a job, with its components.
- `job`: a job, its attempts and members, and the table of phases.
- `claim`: a claim, and its phases.
- `grid`: sites, and the `GridView` that policies see.
- `events`, `actions`: the complete input and output of the core.
- `parameters`: every parameter, with symbol, default and bounds.
- `timeline`: the arithmetic of start and claiming times.
- `placement_queues`, `visiting`: the order of waiting jobs.
"""
