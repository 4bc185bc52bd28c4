"""Backlog: co-allocation over sites whose queues are never empty, as logs of real machines have
them.

- `scenes`: sites with parts of logs as their users' jobs, and the jobs that need all of them.
- `bound`: plain jobs of the same sizes, submitted to each site alone.
- `scores`: runs of policies, and the table over all of them.
"""
