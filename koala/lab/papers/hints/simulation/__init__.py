"""The hints paper's simulation: jobs that compute and read at once, on sites with bounded
processing power and links with bounded bandwidth.

The placement policy is the one that the daemon runs (koala.policies.placement), called in the same
way:

- A site's job slots are its processors, and the largest slice left is its speed.
- The data of a job are a file whose one replica lies where the job was submitted.
- A placed job holds its slice and its booked bandwidth to its end.
- Unbooked jobs share the rest of a link max-min fairly, and hold their slice while they starve.
- Nothing is pre-empted (Hints 4).
"""
