"""Simulated time: the same core behind an event heap, simulated sites, and a seeded plan of faults.

`engine` is the heap and the clock; `links`, `starters` and `sites` obey the protocol of the live
parts (leases, barrier, inventory) without sockets or processes; `pump` is the daemon with a list
for a journal; `world` puts them together. `experiment` is a multicluster without the protocol, for
what is measured: its actions are answered by what comes of them; `das` is KOALA's experiment in it.
Nothing here reads a clock or the global random generator: a run is a function of its seed.
"""
