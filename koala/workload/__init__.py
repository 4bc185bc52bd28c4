"""Workloads: logs of real machines read as they are, and synthetic ones drawn from a seed.

Nothing here schedules. Readers give one job after the other and hold no more than they must;
generators draw from the `random.Random` that they are given. Absent on purpose: clocks, the global
random generator, and any knowledge of what the jobs are for.
"""
