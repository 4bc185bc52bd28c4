"""Claiming policies: the components of a placed job to claim in a try, to move, or to preempt
for.
"""
