"""Connections to ports of programs through the grid, at the end of starters.

forwarder   the starter's handle: listeners, the process that carries, and what it has moved
carrier     that process: between sockets of this machine and connections to the agent
owners      whose a socket of this machine is
"""
