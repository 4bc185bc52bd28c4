"""Claims of the synchronous-queuing paper: its examples and mechanism (4), its results (5)."""

from __future__ import annotations

from collections.abc import Iterable

from koala.core.model.values import Seconds
from koala.papers.claims import MUCH, above, ascending, below, equal, higher, lower, share
from koala.papers.paper import Claim, Comparison, Quantity, Untestable, numbered
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

SKEWS = {"skew_eq2": "by equation (2)", "skew_finish": "as difference of finish times"}


MECHANISM = {
    "4.1-1": Claim(
        "Table 1: the virtual time of the example is 10, 25, 30, 35.",
        once(equal(exact("table_1"), 0.0)),
    ),
    "4.2.2-1": Claim(
        "The subtask of figure 4 has the weight 0.125.", once(equal(exact("weight"), 0.125))
    ),
    "4.4-1": Claim(
        "Each class gets at least the proportion of its queue's weight.",
        once(
            equal(exact("local_share"), 0.4, within=0.001),
            equal(exact("qos_share"), 0.4, within=0.001),
            equal(exact("best_effort_share"), 0.2, within=0.001),
        ),
        reading="1000 quanta with all queues busy",
    ),
    "4.4-2": Claim(
        "A subtask slows down without affecting the others of its queue.",
        once(equal(exact("moved"), 0.0, within=1.5)),
        reading="of 1000 quanta another one gets as many, give or take one",
    ),
    "5.3-1": Claim(
        "Tasks every 10 s overload the system, and every 100 to 500 s they do not (table 2).",
        once(
            equal(exact("first_of_table_2"), 7.5),
            above(exact("least_overload"), 1.0),
            below(exact("most_underload"), 1.0),
        ),
        reading="with the slowdown of the paper, 100/35; the first entry is 750 %",
    ),
    "5.3-2": Claim(
        "The mean slowdown of the machines is 100/35.",
        once(equal(exact("slowdown"), 1.0, within=0.1)),
        reading="speeds uniform from 100 to 600 MHz: it is 2 ln 6, so the loads are higher",
    ),
}

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


NUMBERS = {
    "5.1-1": Claim(
        "With more subtasks, co-allocation becomes more complex.",
        each(_harder),
        figures=(7,),
        reading="the skew of tasks that nobody controls (QoS) is higher with most machines than "
        "with fewest",
    ),
    "5.3-3": Claim(
        "With more machines the load on each of them decreases.",
        each(_dissipated, DENSE_S),
        figures=(10,),
        reading="strict admission control admits more of the tasks that come every 10 s",
    ),
}

# 5.4: SQ against strict admission control.


def _less_skew(metric: str) -> dict[str, Claim]:
    words = SKEWS[metric]
    suffix = "a" if metric == "skew_eq2" else "b"

    def outperforms(level: ReadLevel, machines: int, at_s: Seconds) -> Iterable[Comparison]:
        sq, qos = (of(level, scheme, metric, machines, at_s) for scheme in ("SQ", "QoS"))
        yield lower(sq, qos, by=MUCH)

    def rises(scheme: str, level: ReadLevel, machines: int) -> Iterable[Comparison]:
        dense, sparse = (of(level, scheme, metric, machines, at) for at in (DENSE_S, SPARSE_S))
        yield lower(dense, sparse)

    return {
        f"5.4-1{suffix}": Claim(
            f"SQ significantly outperforms strict admission control; skew {words}.",
            each(outperforms),
            figures=(7,),
            reading=f"at least {share(MUCH)} less",
        ),
        f"5.4-2{suffix}": Claim(
            f"When tasks come less often, the skew under QoS rises; {words}.",
            across(lambda level, machines: rises("QoS", level, machines)),
            figures=(7,),
        ),
        f"5.4-3{suffix}": Claim(
            f"When tasks come less often, the skew under SQ rises, too; {words}.",
            across(lambda level, machines: rises("SQ", level, machines)),
            figures=(7,),
        ),
    }


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


def _quality(number: int, metric: str, words: str) -> dict[str, Claim]:
    return {
        f"5.4-{number}a": Claim(
            f"{words} is much higher for SQ.",
            each(lambda level, n, at_s: _higher(metric, level, n, at_s)),
            figures=(number,),
            reading=f"by at least {share(MUCH)}",
        ),
        f"5.4-{number}b": Claim(
            f"{words} falls when tasks come less often.",
            across(lambda level, n: _falls(metric, level, n)),
            figures=(number,),
        ),
        f"5.4-{number}c": Claim(
            f"{words} falls by more under QoS.",
            across(lambda level, n: _falls_less(metric, level, n)),
            figures=(number,),
        ),
    }


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


RESULTS = {
    **_less_skew("skew_eq2"),
    **_less_skew("skew_finish"),
    "5.4-4": Claim(
        "An overloaded system completes significantly more tasks.",
        across(_more_completed),
        reading=f"accepted in the same time, by {share(MUCH)}: all that are accepted complete",
    ),
    "5.4-5": Claim(
        "Machines that are loaded little let subtasks speed away from the others.",
        across(_speed_away),
        figures=(7,),
        reading="under QoS the first subtask of a task ends earlier, in its durations",
    ),
    "5.4-6": Claim(
        "When tasks come less often, SQ reconfigures continuously.",
        across(_reconfigured),
        reading="more corrections for each task",
    ),
    **_quality(8, "qos_conformance", "QoS conformance"),
    **_quality(9, "effective_cycles", "The share of effective cycles"),
    "5.4-10a": Claim(
        "The acceptance ratio of SQ is higher, every 10 s.", each(_accepts, DENSE_S), figures=(10,)
    ),
    "5.4-10b": Claim(
        "The acceptance ratio of SQ is lower, every 500 s.", each(_accepts, SPARSE_S), figures=(10,)
    ),
    "5.4-10c": Claim(
        "With SQ subtasks take longer, as they proceed at the speed of the slowest.",
        each(_longer, SPARSE_S),
        figures=(10,),
        reading="tasks stay longer, every 500 s",
    ),
    "7-1": Claim(
        "Over-subscription lets more tasks in.",
        each(_subscribed, DENSE_S),
        figures=(10,),
        reading="SQ against SQ with beta 0, every 10 s",
    ),
}

CLAIMS = numbered(MECHANISM, NUMBERS, RESULTS)

UNTESTABLE = numbered(
    {
        "1-1": Untestable(
            "Co-allocation by advance reservation leaves the system under-utilised.",
            "the paper simulates no reservations, and strict admission control is none",
        ),
        "4.5-1": Untestable(
            "SQ can serve rate-sensitive and aggregate-sensitive applications, hard and soft.",
            "all tasks of the simulation are of one kind",
        ),
        "7-2": Untestable(
            "The queues can be implemented at the application level, without the operating system.",
            "not for simulated time; `(progress=sq)` of a live job is such an implementation",
        ),
        "7-3": Untestable(
            "Sensing delays, a decentral controller and conflicting corrections need study.",
            "named as future work",
        ),
    }
)
