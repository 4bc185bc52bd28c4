"""The vocabulary of the link between daemon, agent and starter.

Declared here once and used at both ends. The encoding is `wire.v1`, generated from `proto/`.

messages      all messages, as plain values; `codec` encodes them
constraints   constraints on their fields; `limits` of their sizes
names         patterns of names on the link
versions      version of the protocol
ordering      orders of waiting jobs, used by daemon and local managers
"""
