"""The synchronous-queuing paper's simulation (SQ 5): machines and a controller over them.

Machines share their processor among local tasks, Grid QoS subtasks and Grid best-effort tasks.
Every quantum of every machine is given out: by start-time fair queuing between the three queues and
within the Grid QoS queue, round-robin within the others. A schedule cycle has 100 quanta. At its
end all subtasks report, and under SQ the controller (koala.policies.progress) answers with
corrections. Under QoS there is only strict admission control: no over-subscription, no dummy, no
corrections.
"""
