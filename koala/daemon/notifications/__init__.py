"""Notifications of events outside of the daemon's own interface.

notifier    from durable notices to receivers: mail, webhooks, programs, topics
receivers   what the daemon can and may send, and which events a notice is
outbox      what is to be delivered, on disk until it is
senders     one mail, one request, one program
mqtt        job and site events for an MQTT broker
"""
