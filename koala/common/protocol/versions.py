"""Version of the protocol between daemon, agents and clients.

A new field or kind of message needs no new version. A change that an old side would misread does.
Both ends refuse another version; both say which one they have.
"""

PROTOCOL = 2
