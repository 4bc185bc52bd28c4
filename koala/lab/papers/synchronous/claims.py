"""Claims of the synchronous-queuing paper: its examples and mechanism (4), its results (5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from koala.core.model.values import Seconds
from koala.lab.papers.comparisons import (
    MUCH,
    above,
    ascending,
    below,
    equal,
    exact,
    higher,
    higher_by,
    lower,
    lower_by,
    share,
    share_higher_by,
    shown,
)
from koala.lab.papers.paper import Claim, Comparison, Found, Test, Untestable, numbered
from koala.lab.papers.synchronous.points import (
    DENSE_S,
    LEVELS,
    SCHEMES,
    SPARSE_S,
    SWEEP_S,
    ReadLevel,
)
from koala.lab.papers.synchronous.quantities import across, each, of, once, without_oversubscription
from koala.lab.sim.runs import Quantity

MECHANISM = {
    "4.1-1": Claim(
        "Table 1: the virtual time of the example is 10, 25, 30, 35.",
        once(equal(exact("table_1", "largest difference from table 1, s"), 0.0)),
    ),
    "4.2.2-1": Claim(
        "The subtask of figure 4 has the weight 0.125.",
        once(equal(exact("weight", "weight of the subtask"), 0.125)),
    ),
    "4.4-1": Claim(
        "Each class gets at least the proportion of its queue's weight.",
        once(
            equal(exact("local_share", "share of local jobs"), 0.4, within=0.001),
            equal(exact("qos_share", "share of QoS tasks"), 0.4, within=0.001),
            equal(exact("best_effort_share", "share of best-effort tasks"), 0.2, within=0.001),
        ),
        reading="1000 quanta with all queues busy",
    ),
    "4.4-2": Claim(
        "A subtask slows down without affecting the others of its queue.",
        once(equal(exact("moved", "quanta gained by another subtask"), 0.0, within=1.5)),
        reading="of 1000 quanta another one gets as many, give or take one",
    ),
    "5.3-1": Claim(
        "Tasks every 10 s overload the system, and every 100 to 500 s they do not (table 2).",
        once(
            equal(exact("first_of_table_2", "first load of table 2"), 7.5),
            above(exact("least_overload", "least load every 10 s"), 1.0),
            below(exact("most_underload", "largest load every 100 to 500 s"), 1.0),
        ),
        reading="with the slowdown of the paper, 100/35; the first entry is 750 %",
    ),
    "5.3-2": Claim(
        "The mean slowdown of the machines is 100/35.",
        once(equal(exact("slowdown", "mean slowdown over 100/35"), 1.0, within=0.1)),
        reading="speeds uniform from 100 to 600 MHz: it is 2 ln 6, so the loads are higher",
    ),
}

# 5.1 and 5.3: the number of machines.


def _harder(level: ReadLevel, machines: int, at_s: Seconds) -> Found:
    first, *_, last = level.machines
    one, other = (of(level, "QoS", "skew_eq2", count, at_s) for count in (first, last))
    return lower(one, other) if machines == first else ()


def _dissipated(level: ReadLevel, machines: int, at_s: Seconds) -> Found:
    counts = level.machines
    ratios = (of(level, "QoS", "acceptance_ratio", count, at_s) for count in counts)
    return ascending(*ratios) if machines == counts[0] else ()


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


Make = Callable[[Quantity, Quantity], Found]


def sq_and_qos(metric: str, make: Make, *only_s: Seconds) -> Test:
    """Compare SQ with strict admission control."""

    def phrase(level: ReadLevel, machines: int, at_s: Seconds) -> Found:
        return make(*(of(level, scheme, metric, machines, at_s) for scheme in SCHEMES))

    return each(phrase, *only_s)


def dense_and_sparse(metric: str, make: Make, *schemes: str) -> Test:
    """Compare tasks that come every 10 s with those every 500 s, under each of the schemes."""

    def phrase(level: ReadLevel, machines: int) -> Iterator[Found]:
        for scheme in schemes:
            yield make(*(of(level, scheme, metric, machines, at) for at in (DENSE_S, SPARSE_S)))

    return across(phrase)


def much_lower(one: Quantity, other: Quantity) -> Found:
    """Test that one is much lower."""
    return lower_by(MUCH, one, other)


def much_higher(one: Quantity, other: Quantity) -> Found:
    """Test that one is much higher."""
    return higher_by(MUCH, one, other)


def much_closer_to_one(one: Quantity, other: Quantity) -> Found:
    """Test that one share is much higher: it lacks much less of the whole."""
    return share_higher_by(MUCH, one, other)


def rises(dense: Quantity, sparse: Quantity) -> Comparison:
    """Test that it is higher when tasks come less often."""
    return higher(sparse, dense)


def falls(dense: Quantity, sparse: Quantity) -> Comparison:
    """Test that it is lower when tasks come less often."""
    return lower(sparse, dense)


def _skew(metric: str, suffix: str, words: str) -> dict[str, Claim]:
    return {
        f"5.4-1{suffix}": Claim(
            f"SQ significantly outperforms strict admission control; skew {words}.",
            sq_and_qos(metric, much_lower),
            figures=(7,),
            reading=f"at least {share(MUCH)} less",
        ),
        f"5.4-2{suffix}": Claim(
            f"When tasks come less often, the skew under QoS rises; {words}.",
            dense_and_sparse(metric, lower, "QoS"),
            figures=(7,),
        ),
        f"5.4-3{suffix}": Claim(
            f"When tasks come less often, the skew under SQ rises, too; {words}.",
            dense_and_sparse(metric, lower, "SQ"),
            figures=(7,),
        ),
    }


def _over_table_2(metric: str, scheme: str) -> Test:
    """Compare all interarrival times of table 2, for each number of machines; not under other
    readings, which have no runs at 100 and 200 s."""
    test = across(
        lambda level, machines: ascending(
            *(of(level, scheme, metric, machines, at_s) for at_s in SWEEP_S)
        )
    )
    return lambda level: test(level) if level in LEVELS else ()


def _falls_less(metric: str, level: ReadLevel, machines: int) -> Comparison:
    return shown(
        f"{metric} falls by more under QoS than under SQ, {machines} machines",
        lambda sq, sq_sparse, qos, qos_sparse: (qos - qos_sparse) - (sq - sq_sparse),
        *(of(level, one, metric, machines, at) for one in SCHEMES for at in (DENSE_S, SPARSE_S)),
    )


def _quality(number: int, metric: str, words: str, suffixes: str = "abc") -> dict[str, Claim]:
    much, falls_at_all, falls_by_more = (f"5.4-{number}{one}" for one in suffixes)
    return {
        much: Claim(
            f"{words} is much higher for SQ.",
            sq_and_qos(metric, much_closer_to_one),
            figures=(number,),
            reading=f"its shortfall from 1 is lower by at least {share(MUCH)}; near 1, there is no "
            "room for a share that is so much higher",
        ),
        falls_at_all: Claim(
            f"{words} falls when tasks come less often.",
            dense_and_sparse(metric, falls, *SCHEMES),
            figures=(number,),
            reading="the paper's reason is that the skew rises then: 5.4-2a and 5.4-3a",
        ),
        falls_by_more: Claim(
            f"{words} falls by more under QoS.",
            across(lambda level, machines: _falls_less(metric, level, machines)),
            figures=(number,),
        ),
    }


def _subscribed(level: ReadLevel, machines: int, at_s: Seconds) -> Comparison:
    strict = without_oversubscription(level)
    more, less = (of(one, "SQ", "acceptance_ratio", machines, at_s) for one in (level, strict))
    return higher(more, Quantity(less.setting, less.metric, f"{less} without over-subscription"))


OF_TASKS = "By the words of 5.4, the share of tasks that never leave the window of"
OF_SEVERAL = "Of the tasks of two subtasks or more, the share that never leaves the window of"
SWEEP = {
    f"5.4-{number}": Claim(
        f"As the time between tasks increases, the skew under {scheme} increases.",
        _over_table_2("skew_eq2", scheme),
        figures=(7,),
        reading="by equation (2), in the order of table 2: 10, 100, 200, 500 s",
    )
    for number, scheme in (("2e", "QoS"), ("3e", "SQ"))
}

RESULTS = {
    **_skew("skew_eq2", "a", "by equation (2)"),
    **_skew("skew_finish", "b", "as difference of finish times"),
    **_skew("skew_eq2.several", "c", "by equation (2), of the tasks of two subtasks or more"),
    **_skew("skew_finish.several", "d", "of finish times, of the tasks of two subtasks or more"),
    **SWEEP,
    "5.4-4": Claim(
        "An overloaded system completes significantly more tasks.",
        dense_and_sparse("rate", much_higher, *SCHEMES),
        reading=f"accepted in the same time, by {share(MUCH)}: all that are accepted complete",
    ),
    "5.4-5": Claim(
        "Machines that are loaded little let subtasks speed away from the others.",
        dense_and_sparse("ahead", rises, "QoS"),
        figures=(7,),
        reading="under QoS the first subtask of a task ends earlier, in its durations",
    ),
    "5.4-6": Claim(
        "When tasks come less often, SQ reconfigures continuously.",
        dense_and_sparse("corrections", rises, "SQ"),
        reading="more corrections for each task",
    ),
    **_quality(8, "qos_conformance", "QoS conformance"),
    **_quality(8, "conforming_tasks", f"{OF_TASKS} overall deviation", "def"),
    **_quality(8, "conforming_tasks.several", f"{OF_SEVERAL} overall deviation", "ghi"),
    **_quality(9, "effective_cycles", "The share of effective cycles"),
    **_quality(9, "synchronous_tasks", f"{OF_TASKS} asynchrony", "def"),
    **_quality(9, "synchronous_tasks.several", f"{OF_SEVERAL} asynchrony", "ghi"),
    "5.4-10a": Claim(
        "The acceptance ratio of SQ is higher, every 10 s.",
        sq_and_qos("acceptance_ratio", higher, DENSE_S),
        figures=(10,),
    ),
    "5.4-10b": Claim(
        "The acceptance ratio of SQ is lower, every 500 s.",
        sq_and_qos("acceptance_ratio", lower, SPARSE_S),
        figures=(10,),
    ),
    "5.4-10c": Claim(
        "With SQ subtasks take longer, as they proceed at the speed of the slowest.",
        sq_and_qos("stay", higher, SPARSE_S),
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
        "5.4-11": Untestable(
            "SQ does not perform well in the underloaded system, although there is room.",
            "how well it could perform is not said; 5.4-3 tests that its skew is higher there",
        ),
        "5.4-12": Untestable(
            "SQ takes several schedule cycles to stabilise; only then is the skew minimal.",
            "when a system is stable is not said; 5.4-6 tests how often SQ corrects",
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
