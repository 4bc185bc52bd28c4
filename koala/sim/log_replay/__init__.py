"""Replay of a log of jobs on one site with the agents' model of a local manager.

The jobs of a log are those of the site's own users, so neither the core nor an agent takes part.
All instants are whole seconds from the first submission. Memory holds neither the log nor the
result: jobs are read as they arrive and written as they end. Absent on purpose: co-allocation, and
any clock.
"""
