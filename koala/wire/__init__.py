"""What goes over the wire: generated messages in `v1`, and the only code that knows them.

PROTOCOL is the version of the link and of the clients' calls; it is raised only when an old side
cannot be understood any more.
"""

PROTOCOL = 1
