"""Connections to ports of programs through the grid, at the end of starters.

forwarder   the starter's handle: listeners, variables, the process that carries
encryption  TLS on the connections between both
traffic     that process: between sockets of this machine and connections to the agent
carried     what both know, and the agent
owners      whose a socket of this machine is
"""
