"""A log of jobs replayed on one site: the agents' model of a local manager, and nothing else.

The jobs of a log are those of the site's own users, so neither the core nor an agent takes part.
All instants are whole seconds from the first submission. Neither the log nor the result is held:
jobs are read as they arrive and written as they end. Absent on purpose: co-allocation, and any
clock.
"""
