"""An emulated site: a queue on the wall clock that starts real processes.

system             its record as a kind of local manager
emulated_manager   a `koala.queue_model`, driven by the wall clock
emulated_settings  its settings and its scheduler
emulated_jobs      its jobs, and those of their changes that are to be stored
event_turns        its inbox: events are handled in turns, and changes stored between
queue_places       bookings, gates and GPUs of the claims in its queue
job_runs           from the order to start a job's process until none of them is left
job_restoring      what becomes of jobs when the agent comes back
idle_figures       what is idle, what could start, and why no more
local_load         jobs of the site's own users: they hold processors, and make room for claims
start_forecasts    expected starts of the claims that wait
gpu_pool           GPUs of the site, given to claims by number
first_processes    start and end of the first process of each claim
resident_starters  the agent's side of the parent from which starters are forked
idle_starters      such forks, with and without a claim
process_trees      usage and end of a claim's processes
"""
