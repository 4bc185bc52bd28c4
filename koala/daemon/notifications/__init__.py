"""Notifications of events outside of the daemon's own interface.

notifier   ends of jobs: MQTT topics, and programs of the daemon's own user
mqtt       job and site events for an MQTT broker
"""
