"""What goes over the wire: generated messages in `v1`, and the only code that knows them besides the carriers."""

PROTOCOL = 1
"""Version of the link and of the client's calls; raised only when an old side cannot be understood."""
