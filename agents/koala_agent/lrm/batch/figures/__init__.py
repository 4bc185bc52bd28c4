"""Figures of a batch system: idle processors, waiting jobs, and expected starts.

queue_figures    asks for them seldom, and follows our own claims between two looks
idle_processors  derives what is idle for the next claim from figures and our own claims
forecast         expected starts of waiting claims, by running a queue forward
"""
