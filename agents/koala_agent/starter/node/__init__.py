"""The machines of a component: their allocation, and the helpers of a starter on the others.

`allocation` reads them from the batch system. `state_machine` is the helper's pure machine,
`driver` its I/O, `remote_nodes` the starter's view of all helpers.
"""
