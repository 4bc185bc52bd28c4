"""Malleable jobs on the clusters of the DAS-3, which grow and shrink while they run (Buisson,
Sonmez, Mohamed, Lammers, Epema 2007).

`setting` has the parameters, `arrivals` the jobs of a seed, `run` makes one run and measures it.
"""
