"""Replay of a log of jobs on one site with the agents' model of a local manager.

The jobs of a log are those of the site's own users, so neither the core nor an agent takes part.
All instants are whole seconds from the first submission. Memory holds neither the log nor the
result: jobs are read as they arrive and written as they end. Absent on purpose: co-allocation, and
any clock.

replay        from a log to figures
run           a site on the engine: completions, changes, arrivals, a pass, breakpoints
events        failing processors and breakpoints; `event_files` has them as TOML
tally         measures of the jobs, as they end
series        utilisation and demand over time; `drawing` plots them
job_files     the jobs that ran, as CSV or SWF
multicluster  a log as the workload of several clusters
"""
