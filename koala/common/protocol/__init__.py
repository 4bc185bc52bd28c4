"""The vocabulary of the link between daemon, agent and starter.

Declared here once and used at both ends. The encoding is `wire.v1`, generated from `proto/`.

messages      all messages, as plain values; `codec` encodes them
constraints   constraints on their fields; `limits` of their sizes
names         patterns of names on the link
versions      version of the protocol
queue_limits  where a claim goes in a local manager, and how long it may hold and run there
ordering      orders of waiting jobs, used by daemon and local managers
"""
