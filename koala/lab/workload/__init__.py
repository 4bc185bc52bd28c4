"""Workloads: logs of real machines, and synthetic jobs drawn from a seed.

logs             logs as lines of fields; `swf` and `gwf` are the formats
arrivals         the jobs of a log as arrivals at one machine
lublin           the model of Lublin and Feitelson
papers           local users of the papers; `distributions`: D(q), from which they draw sizes
random_streams   one random generator for each purpose, all from one seed

Nothing here schedules. Readers yield one job after the other and hold no more than they must;
generators draw from the `random.Random` that they are given. Absent on purpose: clocks, the global
random generator, and any knowledge of the jobs' purpose.
"""
