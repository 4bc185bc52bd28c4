"""KOALA's experiment (KOALA 4, 5): 500 jobs to be co-allocated over four clusters of the DAS, with
the regular load of its users beside them, while sites fail.

`setting` holds every parameter and says which values are ours, `arrivals` draws jobs and local
users from a seed, `run` makes one run and measures it.
"""
