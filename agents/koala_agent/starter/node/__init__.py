"""A starter's helpers on the other machines of its component.

`machine` is the helper as a pure machine, `driver` its world, `remote_nodes` the starter's view of
all helpers.
"""
