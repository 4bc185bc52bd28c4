"""Workloads: logs of real machines, and synthetic jobs drawn from a seed.

Nothing here schedules. Readers yield one job after the other and hold no more than they must;
generators draw from the `random.Random` that they are given. Absent on purpose: clocks, the global
random generator, and any knowledge of the jobs' purpose.
"""
