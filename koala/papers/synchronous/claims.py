"""Claims of the synchronous-queuing paper: its examples and mechanism (4), its results (5)."""

from __future__ import annotations

from collections.abc import Iterable

from koala.core.model.values import Seconds
from koala.papers.claims import MUCH, ascending, higher, lower, share
from koala.papers.paper import Claim, Comparison, Quantity, Untestable
from koala.papers.synchronous.points import (
    DENSE_S,
    SPARSE_S,
    ReadLevel,
    across,
    each,
    exact,
    of,
    once,
    without_oversubscription,
)

EXACT = 1e-9
SKEWS = {"skew_eq2": "by equation (2)", "skew_finish": "as difference of finish times"}


def equal(quantity: Quantity, value: float, within: float = EXACT) -> Comparison:
    """Test that a quantity is this number."""
    return Comparison(
        text=f"{quantity} = {value:g}",
        of=(quantity,),
        contrast=lambda found: within - abs(found - value),
    )


def above(quantity: Quantity, bound: float) -> Comparison:
    """Test that a quantity exceeds a number."""
    return Comparison(
        text=f"{quantity} > {bound:g}", of=(quantity,), contrast=lambda found: found - bound
    )


def below(quantity: Quantity, bound: float) -> Comparison:
    """Test that a quantity is less than a number."""
    return Comparison(
        text=f"{quantity} < {bound:g}", of=(quantity,), contrast=lambda found: bound - found
    )


MECHANISM = (
    Claim(
        id="4.1-1",
        section="4.1",
        text="Table 1: the virtual time of the example is 10, 25, 30, 35.",
        test=once(equal(exact("table_1"), 0.0)),
    ),
    Claim(
        id="4.2.2-1",
        section="4.2.2",
        text="The subtask of figure 4 has the weight 0.125.",
        test=once(equal(exact("weight"), 0.125)),
    ),
    Claim(
        id="4.4-1",
        section="4.4",
        text="Each class gets at least the proportion of its queue's weight.",
        reading="1000 quanta with all queues busy",
        test=once(
            equal(exact("local_share"), 0.4, 0.001),
            equal(exact("qos_share"), 0.4, 0.001),
            equal(exact("best_effort_share"), 0.2, 0.001),
        ),
    ),
    Claim(
        id="4.4-2",
        section="4.4",
        text="A subtask slows down without affecting the others of its queue.",
        reading="of 1000 quanta another one gets as many, give or take one",
        test=once(equal(exact("moved"), 0.0, 1.5)),
    ),
    Claim(
        id="5.3-1",
        section="5.3",
        text="Tasks every 10 s overload the system, and every 100 to 500 s they do not (table 2).",
        reading="with the slowdown of the paper, 100/35; the first entry is 750 %",
        test=once(
            equal(exact("first_of_table_2"), 7.5),
            above(exact("least_overload"), 1.0),
            below(exact("most_underload"), 1.0),
        ),
    ),
    Claim(
        id="5.3-2",
        section="5.3",
        text="The mean slowdown of the machines is 100/35.",
        reading="speeds uniform from 100 to 600 MHz: it is 2 ln 6, so the loads are higher",
        test=once(equal(exact("slowdown"), 1.0, 0.1)),
    ),
)

# 5.1 and 5.3: the number of machines.


def _harder(level: ReadLevel, _machines: int, at_s: Seconds) -> Iterable[Comparison]:
    first, *_, last = level.machines
    if _machines == first:
        one, other = (of(level, "QoS", "skew_eq2", count, at_s) for count in (first, last))
        yield lower(one, other)


def _dissipated(level: ReadLevel, machines: int, at_s: Seconds) -> Iterable[Comparison]:
    if machines == level.machines[0]:
        counts = level.machines
        yield from ascending(*(of(level, "QoS", "acceptance_ratio", n, at_s) for n in counts))


NUMBERS = (
    Claim(
        id="5.1-1",
        section="5.1",
        text="With more subtasks, co-allocation becomes more complex.",
        reading="the skew of tasks that nobody controls (QoS) is higher with most machines than "
        "with fewest",
        figures=(7,),
        test=each(_harder),
    ),
    Claim(
        id="5.3-3",
        section="5.3",
        text="With more machines the load on each of them decreases.",
        reading="strict admission control admits more of the tasks that come every 10 s",
        figures=(10,),
        test=each(_dissipated, DENSE_S),
    ),
)

# 5.4: SQ against strict admission control.


def _less_skew(metric: str) -> tuple[Claim, ...]:
    words = SKEWS[metric]
    suffix = "a" if metric == "skew_eq2" else "b"

    def outperforms(level: ReadLevel, machines: int, at_s: Seconds) -> Iterable[Comparison]:
        sq, qos = (of(level, scheme, metric, machines, at_s) for scheme in ("SQ", "QoS"))
        yield lower(sq, qos, by=MUCH)

    def rises(scheme: str, level: ReadLevel, machines: int) -> Iterable[Comparison]:
        dense, sparse = (of(level, scheme, metric, machines, at) for at in (DENSE_S, SPARSE_S))
        yield lower(dense, sparse)

    return (
        Claim(
            id=f"5.4-1{suffix}",
            section="5.4",
            text=f"SQ significantly outperforms strict admission control; skew {words}.",
            reading=f"at least {share(MUCH)} less",
            figures=(7,),
            test=each(outperforms),
        ),
        Claim(
            id=f"5.4-2{suffix}",
            section="5.4",
            text=f"When tasks come less often, the skew under QoS rises; {words}.",
            figures=(7,),
            test=across(lambda level, machines: rises("QoS", level, machines)),
        ),
        Claim(
            id=f"5.4-3{suffix}",
            section="5.4",
            text=f"When tasks come less often, the skew under SQ rises, too; {words}.",
            figures=(7,),
            test=across(lambda level, machines: rises("SQ", level, machines)),
        ),
    )


def _more_completed(level: ReadLevel, machines: int) -> Iterable[Comparison]:
    for scheme in ("SQ", "QoS"):
        dense, sparse = (of(level, scheme, "rate", machines, at) for at in (DENSE_S, SPARSE_S))
        yield higher(dense, sparse, by=MUCH)


def _speed_away(level: ReadLevel, machines: int) -> Iterable[Comparison]:
    dense, sparse = (of(level, "QoS", "ahead", machines, at) for at in (DENSE_S, SPARSE_S))
    yield higher(sparse, dense)


def _reconfigured(level: ReadLevel, machines: int) -> Iterable[Comparison]:
    dense, sparse = (of(level, "SQ", "corrections", machines, at) for at in (DENSE_S, SPARSE_S))
    yield higher(sparse, dense)


def _higher(metric: str, level: ReadLevel, machines: int, at_s: Seconds) -> Iterable[Comparison]:
    sq, qos = (of(level, scheme, metric, machines, at_s) for scheme in ("SQ", "QoS"))
    yield higher(sq, qos, by=MUCH)


def _falls(metric: str, level: ReadLevel, machines: int) -> Iterable[Comparison]:
    for scheme in ("SQ", "QoS"):
        dense, sparse = (of(level, scheme, metric, machines, at) for at in (DENSE_S, SPARSE_S))
        yield lower(sparse, dense)


def _falls_less(metric: str, level: ReadLevel, machines: int) -> Iterable[Comparison]:
    quantities = [
        of(level, scheme, metric, machines, at_s)
        for scheme in ("SQ", "QoS")
        for at_s in (DENSE_S, SPARSE_S)
    ]
    yield Comparison(
        text=f"{metric} falls by more under QoS than under SQ, {machines} machines",
        of=tuple(quantities),
        contrast=lambda sq, sq_sparse, qos, qos_sparse: (qos - qos_sparse) - (sq - sq_sparse),
    )


def _quality(number: int, metric: str, words: str) -> tuple[Claim, ...]:
    return (
        Claim(
            id=f"5.4-{number}a",
            section="5.4",
            text=f"{words} is much higher for SQ.",
            reading=f"by at least {share(MUCH)}",
            figures=(number,),
            test=each(lambda level, n, at_s: _higher(metric, level, n, at_s)),
        ),
        Claim(
            id=f"5.4-{number}b",
            section="5.4",
            text=f"{words} falls when tasks come less often.",
            figures=(number,),
            test=across(lambda level, n: _falls(metric, level, n)),
        ),
        Claim(
            id=f"5.4-{number}c",
            section="5.4",
            text=f"{words} falls by more under QoS.",
            figures=(number,),
            test=across(lambda level, n: _falls_less(metric, level, n)),
        ),
    )


def _accepts(level: ReadLevel, machines: int, at_s: Seconds) -> Iterable[Comparison]:
    sq, qos = (of(level, scheme, "acceptance_ratio", machines, at_s) for scheme in ("SQ", "QoS"))
    yield higher(sq, qos) if at_s == DENSE_S else lower(sq, qos)


def _longer(level: ReadLevel, machines: int, at_s: Seconds) -> Iterable[Comparison]:
    sq, qos = (of(level, scheme, "stay", machines, at_s) for scheme in ("SQ", "QoS"))
    yield higher(sq, qos)


def _subscribed(level: ReadLevel, machines: int, at_s: Seconds) -> Iterable[Comparison]:
    strict = without_oversubscription(level)
    more, less = (of(one, "SQ", "acceptance_ratio", machines, at_s) for one in (level, strict))
    yield higher(more, Quantity(less.setting, less.metric, f"{less} without over-subscription"))


RESULTS = (
    *_less_skew("skew_eq2"),
    *_less_skew("skew_finish"),
    Claim(
        id="5.4-4",
        section="5.4",
        text="An overloaded system completes significantly more tasks.",
        reading=f"accepted in the same time, by {share(MUCH)}: all that are accepted complete",
        test=across(_more_completed),
    ),
    Claim(
        id="5.4-5",
        section="5.4",
        text="Machines that are loaded little let subtasks speed away from the others.",
        reading="under QoS the first subtask of a task ends earlier, in its durations",
        figures=(7,),
        test=across(_speed_away),
    ),
    Claim(
        id="5.4-6",
        section="5.4",
        text="When tasks come less often, SQ reconfigures continuously.",
        reading="more corrections for each task",
        test=across(_reconfigured),
    ),
    *_quality(8, "qos_conformance", "QoS conformance"),
    *_quality(9, "effective_cycles", "The share of effective cycles"),
    Claim(
        id="5.4-10a",
        section="5.4",
        text="The acceptance ratio of SQ is higher, every 10 s.",
        figures=(10,),
        test=each(_accepts, DENSE_S),
    ),
    Claim(
        id="5.4-10b",
        section="5.4",
        text="The acceptance ratio of SQ is lower, every 500 s.",
        figures=(10,),
        test=each(_accepts, SPARSE_S),
    ),
    Claim(
        id="5.4-10c",
        section="5.4",
        text="With SQ subtasks take longer, as they proceed at the speed of the slowest.",
        reading="tasks stay longer, every 500 s",
        figures=(10,),
        test=each(_longer, SPARSE_S),
    ),
    Claim(
        id="7-1",
        section="7",
        text="Over-subscription lets more tasks in.",
        reading="SQ against SQ with beta 0, every 10 s",
        figures=(10,),
        test=each(_subscribed, DENSE_S),
    ),
)

CLAIMS = (*MECHANISM, *NUMBERS, *RESULTS)

UNTESTABLE = (
    Untestable(
        id="1-1",
        section="1",
        text="Co-allocation by advance reservation leaves the system under-utilised.",
        reason="the paper simulates no reservations, and strict admission control is none",
    ),
    Untestable(
        id="4.5-1",
        section="4.5",
        text="SQ can serve rate-sensitive and aggregate-sensitive applications, hard and soft.",
        reason="all tasks of the simulation are of one kind",
    ),
    Untestable(
        id="7-2",
        section="7",
        text="The queues can be implemented at the application level, without the operating "
        "system.",
        reason="not for simulated time; `(progress=sq)` of a live job is such an implementation",
    ),
    Untestable(
        id="7-3",
        section="7",
        text="Sensing delays, a decentral controller and conflicting corrections need study.",
        reason="named as future work",
    ),
)
