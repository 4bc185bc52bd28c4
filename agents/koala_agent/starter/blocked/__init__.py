"""Processes at the barrier.

process    a process that waits for its release, forked or compiled
compiled   start of the compiled one, `gate.c`, on the agent's own machine
"""
