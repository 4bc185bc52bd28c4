"""The loop around the core: events in, one journal transaction a batch, actions out.

event_loop          the task that owns the scheduler, and its bounded inbox
group_commit        all items of the inbox as one batch and one transaction
action_dispatcher   actions as messages, once their event is durable
event_feed          notices for watchers and notifications, from memory or the journal
observers           metrics and traces of durable batches, whose errors end nothing
gc_tuning           keep Python's garbage collector away from long-lived objects
"""
