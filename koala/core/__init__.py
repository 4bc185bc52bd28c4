"""The scheduling core: a pure state machine, fed with events, answering with actions.

`Scheduler.handle(event, now) -> list[Action]` is the only call that changes scheduling state, and
`Scheduler.wake_at` the only timer. The core reads no clock, does no I/O and draws nothing at
random, so the same object runs in the daemon, in simulated time and behind injected faults.

Invariants:
- The state is what replaying the journal gives: events, plus the answers of policies.
- A job is in one phase; phases change along `TRANSITIONS` (`model.job`), in `State.enter` alone.
- A release is committed before it leaves. A stop is owed until its claim is gone.

Floors; a module imports only from its own floor or from one above it in this list:

    model/       ids, jobs, sites, events, actions, parameters, timers, queues: values
    policy_api   the question and the answer of each policy slot
    state        the whole state, and the few functions that write it
    queries      read-only questions about the state; `site_views`, `site_health`
    pipeline/    the steps: enqueue, place, claim, start, run, end, and what sites report
    scheduler    dispatches each event to its step
    snapshot     the state as plain data and back; `eviction`, `invariants`, `leases`

Absent on purpose: text for people and accounting (`koala.views`), policies (`koala.policies`).
"""
