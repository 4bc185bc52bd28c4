"""Values and records of the core: what jobs, sites, events and actions consist of.

job_spec           the request for a job, with its components
job                a job, its attempts and members, and the table of phases
claim              a claim, and its phases
charges            records of ended claims, setbacks and refusals, for accounting and back-off
grid               sites, and the `GridView` that policies see; `replicas` of files, and copies
events, actions    the complete input and output of the core
parameters         every parameter, with symbol, default and bounds
timeline           the arithmetic of start and claiming times
timers             all that the core waits for, in one heap
placement_queues   jobs that wait to be placed; `visiting`: the turns of several queues
predecessors       jobs that must end before another one is placed
allowances         limits of users and groups
hold_budget        processor-seconds that claims may hold before their barrier
tcp_paths          connections that a job needs between its components
progress_reports   progress of running jobs, and the question to a progress policy
values             ids and small values
"""
