"""The agent: one process in front of the local resource manager of one site."""
