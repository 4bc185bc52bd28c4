"""The experiments of the multiple-queues paper (Multiple queues 3)."""
