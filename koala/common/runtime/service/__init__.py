"""Processes that outlive a terminal: what they tell their manager, and a manager of our own.

systemd    notify the service manager
detached   start, find and stop processes in the background
"""
