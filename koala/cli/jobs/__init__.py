"""Commands about jobs: submit, list, show, why, timeline, cancel, wait, logs, watch, outputs,
rsl."""
