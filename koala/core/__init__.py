"""The scheduling core: a pure state machine, fed with events, answering with actions.

`Scheduler.handle(event, now) -> list[Action]` is the only call that changes scheduling state.
`Scheduler.wake_at` is the only timer. The core reads no clock, does no I/O and draws no random
numbers. The same object therefore runs in the daemon, in simulated time and under fault injection.

Invariants:
- Replaying the journal (events plus the recorded answers of policies) gives the same state.
- A job is in one phase, which carries exactly its data; phases change along `TRANSITIONS`
  (`model.job`), only in `State.enter`. So is a claim (`model.claim`).
- A release is committed before it is sent. A stop is pending until its claim is gone.

Layers; a module imports only from its own layer or from a layer above it in this list:

    model/       values: ids, jobs, sites, events, actions, parameters, timers, queues
    policy_api   the question and the answer of each policy slot; `answer_recorder`
    state        the whole state, and the few functions that write it
    queries      read-only questions about the state
    allowances   what users and groups may have, and what their placed jobs have
    sites        views of sites for policies, windows of claims, the circuit breaker;
                 `ticket_sites` those in whose queues a component waits
    stated_starts  expected starts of claims as sites told them, and how well they were met
    resources    GPUs, features and memory that a component needs; `feasibility` on an empty grid
    splitting    splits of a flexible job over the room that sites have for it
    pipeline/    the steps: enqueue, place, claim, start, run, end, and site reports
    scheduler    dispatches each event to its step
    snapshot     serializes the state and restores it; `snapshot_rows` for jobs of a long queue
    digest       the checksum of the state that a replay must give again
    purge        ended jobs leave the state
    leases       leases of claims, and claims that are fenced when theirs expire
    awaited_passes  released claims that tell no pass, as those of frozen starters
    invariants   checks between two events

Not here by design: text for people and accounting (`koala.views`), and policies
(`koala.policies`).
"""
