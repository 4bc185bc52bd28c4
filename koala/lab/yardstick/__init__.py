"""Yardstick: a fixed benchmark of co-allocation, for Koala's policies and for others'.

- `grids`: five grids.
- `workloads`: twelve workloads, with shares of jobs of several components from 0 to 50 %.
- `entries`: policies that are measured, each against the same reference.
- `scores`: metrics, and the table over all cells.
"""
