"""Limits of a batch system for one job, and pauses after its refusals.

queue_knowledge     the limits of its queues, asked for once in minutes
submission_pauses   pauses between submissions that it does not take, one for all claims of a kind
"""
