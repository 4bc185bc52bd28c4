"""The helpers of a starter on the other nodes of its component.

`state_machine` is the helper's pure machine, `driver` its I/O, `remote_nodes` the starter's view of
all helpers.
"""
