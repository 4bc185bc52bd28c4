"""Ticket policies: which claims of a job wait in the queues of busy sites, and which of them may
start.
"""
