"""Claiming: which components of a placed job are claimed in a claiming try, moved, or preempted
for.
"""
