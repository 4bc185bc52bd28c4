"""An imitation of OpenPBS, for machines on which it cannot be had.

server    the queue, the scheduler and one machine, as one process with a socket
machine   one job: runs its script, and leaves its exit status in a file
commands  qsub, qstat, qdel, qsig and pbsnodes, with the messages and exit statuses of OpenPBS 23

They obey what the manual pages and the sources say. What those do not say, they do not show.
"""
