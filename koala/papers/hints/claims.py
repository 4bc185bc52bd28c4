"""Claims of the hints paper: its expectations (4), results (5) and conclusions (6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from koala.papers.claims import (
    LITTLE,
    MUCH,
    at_most,
    close,
    higher,
    highest,
    lower,
    lowest,
    share,
    slightly_lower,
)
from koala.papers.hints.points import (
    FRACTIONS,
    POLICIES,
    Compared,
    Reading,
    of,
    reading_of,
    response,
)
from koala.papers.paper import Claim, Comparison, Level, Quantity, Untestable

MIXED = tuple(fraction for fraction in FRACTIONS if 0 < fraction < 1)
RISING = tuple(fraction for fraction in FRACTIONS if fraction <= 0.6)
LATE = tuple(fraction for fraction in FRACTIONS if fraction > 0.6)
FULL = 0.9
"""Share of its bandwidth above which a link counts as saturated."""
UP_TO = 0.30


def at(
    test: Callable[[Reading], Iterable[Comparison]],
) -> Callable[[Level], tuple[Comparison, ...]]:
    """Make a test that depends on the reading of the paper."""
    return lambda level: tuple(test(reading_of(level)))


def over(text: str, quantity: Quantity, bound: float) -> Comparison:
    """Test that a quantity exceeds a number."""
    return Comparison(text=text, of=(quantity,), contrast=lambda value: value - bound)


def three(reading: Reading, kind: str = "all", fraction: float = 0.2) -> dict[str, Quantity]:
    """Return the response times of the three policies."""
    return {policy: response(policy, fraction, reading, kind) for policy in POLICIES}


# 1 and 4: what is expected.


def _several_resources(reading: Reading) -> Iterable[Comparison]:
    found = three(reading)
    yield lower(found["PreferLocal"], found["NoNetwork"])


def _by_type(reading: Reading) -> Iterable[Comparison]:
    found = three(reading)
    yield from lowest(found["Service"], found.values())


def _later_than_predicted(reading: Reading) -> Iterable[Comparison]:
    for fraction in (0.4, 0.6, 0.8, 1.0):
        stretch = of("NoNetwork", "stretch.io", fraction, reading)
        yield over(f"{stretch} > {1 + MUCH:g}", stretch, 1 + MUCH)


def _bad_with_much_io(reading: Reading) -> Iterable[Comparison]:
    for fraction in (0.4, 0.6, 0.8, 1.0):
        found = three(reading, fraction=fraction)
        yield from highest(found["NoNetwork"], found.values())


EXPECTATIONS = (
    Claim(
        id="1-1",
        section="1",
        text="Scheduling ought to take several resource types into account, not power alone.",
        reading="PreferLocal has lower response times than NoNetwork, 20 % I/O-bound jobs",
        figures=(2,),
        test=at(_several_resources),
    ),
    Claim(
        id="1-2",
        section="1",
        text="One algorithm with rigid constraints for all can be outperformed by different ones "
        "for different types.",
        reading="Service has the lowest response times of the three, 20 % I/O-bound jobs",
        figures=(2,),
        test=at(_by_type),
    ),
    Claim(
        id="4.1-1",
        section="4.1",
        text="With many I/O-bound jobs NoNetwork performs badly.",
        reading="highest of the three at 40, 60, 80 and 100 %",
        figures=(2,),
        test=at(_bad_with_much_io),
    ),
    Claim(
        id="4.1-2",
        section="4.1",
        text="These jobs finish considerably later than it predicts, because they block.",
        reading=f"they run longer than their length over their slice by {share(MUCH)}",
        test=at(_later_than_predicted),
    ),
)

# 5.3: response times by class.


def _bad_for_io(reading: Reading) -> Iterable[Comparison]:
    found = three(reading, "io")
    yield from highest(found["NoNetwork"], found.values())


def _hints_help_cpu(reading: Reading) -> Iterable[Comparison]:
    found = three(reading, "cpu")
    yield from lowest(found["Service"], found.values())


def _slower(reading: Reading) -> Iterable[Comparison]:
    below = of("Service", "below_preferred.cpu", 0.2, reading)
    yield over(f"{below} > 0", below, 0.0)


def _pair(reading: Reading) -> Compared:
    return Compared(policy="Service", other="PreferLocal", reading=reading)


def _slightly_slower(reading: Reading) -> Iterable[Comparison]:
    rate = Quantity(_pair(reading), "rate", "rate of those below it, in preferred rates")
    yield over(f"{rate} > {1 - MUCH:g}", rate, 1 - MUCH)


def _sooner(reading: Reading) -> Iterable[Comparison]:
    pair = _pair(reading)
    yield lower(
        Quantity(pair, "response", "their response under Service"),
        Quantity(pair, "other_response", "under PreferLocal"),
    )


BY_CLASS = (
    Claim(
        id="5.3-1",
        section="5.3",
        text="NoNetwork fails to produce good schedules for I/O-bound jobs.",
        reading="their response time is the highest of the three",
        figures=(2,),
        test=at(_bad_for_io),
    ),
    Claim(
        id="5.3-2",
        section="5.3",
        text="Hints improve the average response time of CPU-bound jobs.",
        figures=(2,),
        test=at(_hints_help_cpu),
    ),
    Claim(
        id="5.3-3",
        section="5.3",
        text="Some jobs are now processed at a rate below the preferred one.",
        reading="CPU-bound ones under Service",
        test=at(_slower),
    ),
    Claim(
        id="5.3-4",
        section="5.3",
        text="Slightly below it.",
        reading=f"these have {share(1 - MUCH)} of it in the mean, or more",
        test=at(_slightly_slower),
    ),
    Claim(
        id="5.3-5",
        section="5.3",
        text="But they finish sooner than if they were delayed in time.",
        reading="the same jobs under PreferLocal, which delays them",
        test=at(_sooner),
    ),
)

# 5.4: response times with varying class representation.


def _alike(reading: Reading) -> Iterable[Comparison]:
    found = three(reading, fraction=0.0)
    yield from close(found["NoNetwork"], found["PreferLocal"])


def _slightly_better(reading: Reading) -> Iterable[Comparison]:
    found = three(reading, fraction=0.0)
    yield from slightly_lower(found["Service"], found["PreferLocal"])


def _better_without_io(reading: Reading) -> Iterable[Comparison]:
    found = three(reading, fraction=0.0)
    yield lower(found["Service"], found["PreferLocal"])


def _degrades(reading: Reading) -> Iterable[Comparison]:
    for less, more in pairwise(RISING):
        yield higher(response("NoNetwork", more, reading), response("NoNetwork", less, reading))


def _degrades_relatively(reading: Reading) -> Iterable[Comparison]:
    for less, more in pairwise(RISING):
        yield Comparison(
            text=f"NoNetwork / PreferLocal at {share(more)} > at {share(less)}",
            of=(
                response("NoNetwork", more, reading),
                response("PreferLocal", more, reading),
                response("NoNetwork", less, reading),
                response("PreferLocal", less, reading),
            ),
            contrast=lambda a, b, c, d: a / b - c / d,
        )


def _more_remote(reading: Reading) -> Iterable[Comparison]:
    for fraction in MIXED:
        yield higher(
            of("PreferLocal", "remote.io", fraction, reading),
            of("Service", "remote.io", fraction, reading),
        )


def _differs(reading: Reading) -> Iterable[Comparison]:
    for fraction in RISING[1:]:
        found = three(reading, fraction=fraction)
        yield lower(found["Service"], found["PreferLocal"])


def _saturates(reading: Reading) -> Iterable[Comparison]:
    for fraction in LATE:
        for policy in POLICIES:
            busiest = of(policy, "busiest_link", fraction, reading)
            yield over(f"{busiest} > {FULL:g}", busiest, FULL)


def _converges(reading: Reading) -> Iterable[Comparison]:
    for fraction in LATE:
        found = three(reading, fraction=fraction)
        for policy in ("NoNetwork", "PreferLocal"):
            yield from close(found[policy], found["Service"])


def _local_converges(reading: Reading) -> Iterable[Comparison]:
    for fraction in LATE:
        found = three(reading, fraction=fraction)
        yield from close(found["PreferLocal"], found["Service"])


BY_SHARE = (
    Claim(
        id="5.4-1",
        section="5.4",
        text="With CPU-bound jobs alone NoNetwork performs like PreferLocal.",
        figures=(2,),
        test=at(_alike),
    ),
    Claim(
        id="5.4-2",
        section="5.4",
        text="Service performs better there, as it does not prefer local sites.",
        figures=(2,),
        test=at(_better_without_io),
    ),
    Claim(
        id="5.4-3",
        section="5.4",
        text="Slightly better.",
        reading=f"by less than {share(MUCH)}",
        figures=(2,),
        test=at(_slightly_better),
    ),
    Claim(
        id="5.4-4",
        section="5.4",
        text="With more I/O-bound jobs the performance of NoNetwork degrades.",
        reading="its response time ascends from 0 to 60 %, as it stands",
        figures=(2,),
        test=at(_degrades),
    ),
    Claim(
        id="5.4-5",
        section="5.4",
        text="It degrades as the network gains importance.",
        reading="relative to PreferLocal, which looks at links: I/O-bound jobs are half as long, "
        "so that every policy has less to do",
        figures=(2,),
        test=at(_degrades_relatively),
    ),
    Claim(
        id="5.4-6",
        section="5.4",
        text="PreferLocal schedules more I/O-bound jobs remotely.",
        reading="than Service, 20 to 80 %",
        test=at(_more_remote),
    ),
    Claim(
        id="5.4-7",
        section="5.4",
        text="This accounts for the difference with Service.",
        reading="Service has lower response times at 20, 40 and 60 %",
        figures=(2,),
        test=at(_differs),
    ),
    Claim(
        id="5.4-8",
        section="5.4",
        text="Past 60 % the network links saturate.",
        reading=f"the busiest one carries more than {share(FULL)}, at 80 and 100 %",
        figures=(2,),
        test=at(_saturates),
    ),
    Claim(
        id="5.4-9",
        section="5.4",
        text="And the three algorithms converge.",
        reading=f"within {share(LITTLE)} of Service at 80 and 100 %",
        figures=(2,),
        test=at(_converges),
    ),
    Claim(
        id="5.4-10",
        section="5.4",
        text="PreferLocal and Service do so.",
        reading=f"these two alone, within {share(LITTLE)}",
        figures=(2,),
        test=at(_local_converges),
    ),
)

# 6: conclusions.


def _gain(reading: Reading, others: Sequence[str]) -> tuple[Quantity, ...]:
    """Compare Service with the other policies at every share."""
    return tuple(
        response(policy, fraction, reading)
        for fraction in FRACTIONS
        for policy in ("Service", *others)
    )


def _largest_gain(*values: float) -> float:
    pairs = zip(values[::2], values[1::2], strict=True)
    return max(1 - service / other for service, other in pairs)


def _significantly(reading: Reading) -> Iterable[Comparison]:
    yield Comparison(
        text=f"somewhere Service is lower than PreferLocal by {share(MUCH)} of it",
        of=_gain(reading, ("PreferLocal",)),
        contrast=lambda *values: _largest_gain(*values) - MUCH,
    )


def _up_to(reading: Reading) -> Iterable[Comparison]:
    yield Comparison(
        text=f"the largest gain over PreferLocal is at most {share(UP_TO + LITTLE)}",
        of=_gain(reading, ("PreferLocal",)),
        contrast=lambda *values: UP_TO + LITTLE - _largest_gain(*values),
    )


def _significant_on_average(reading: Reading) -> Iterable[Comparison]:
    found = three(reading)
    for policy in ("NoNetwork", "PreferLocal"):
        yield Comparison(
            text=f"{found['Service']} < {found[policy]} by {share(MUCH)} of it",
            of=(found["Service"], found[policy]),
            contrast=lambda service, other: (1 - MUCH) * other - service,
        )


def _never_worse(reading: Reading) -> Iterable[Comparison]:
    for fraction in FRACTIONS:
        found = three(reading, fraction=fraction)
        for policy in ("NoNetwork", "PreferLocal"):
            yield at_most(found["Service"], found[policy])


CONCLUSIONS = (
    Claim(
        id="6-1",
        section="6",
        text="Average response times improve significantly.",
        reading=f"with 20 % I/O-bound jobs, by {share(MUCH)} of each of the others",
        figures=(2,),
        test=at(_significant_on_average),
    ),
    Claim(
        id="6-2",
        section="6",
        text="Significantly in some cases.",
        reading=f"at some share of I/O-bound jobs, by {share(MUCH)} of PreferLocal",
        figures=(2,),
        test=at(_significantly),
    ),
    Claim(
        id="6-3",
        section="6",
        text="Up to 30 % in some cases.",
        reading=f"at no share by more than {share(UP_TO + LITTLE)} of PreferLocal",
        figures=(2,),
        test=at(_up_to),
    ),
    Claim(
        id="A-1",
        section="A",
        text="Better schedules can be obtained with hints used intelligently.",
        reading=f"Service is nowhere worse than another by {share(LITTLE)}",
        figures=(2,),
        test=at(_never_worse),
    ),
)

CLAIMS = (*EXPECTATIONS, *BY_CLASS, *BY_SHARE, *CONCLUSIONS)

UNTESTABLE = (
    Untestable(
        id="2-1",
        section="2",
        text="A network simulator at packet level allows for accurate simulation.",
        reason="ours shares links as fluids; there is no packet simulator to compare it with here",
    ),
    Untestable(
        id="1-3",
        section="1",
        text="Programmable architectures, in which the application brings its scheduling "
        "mechanism, are promising.",
        reason="an outlook; policies of other packages are taken by entry point, and contained",
    ),
    Untestable(
        id="4.3-1",
        section="4.3",
        text="Service can be seen as delivering the same service to each job of a class.",
        reason="a way of seeing it, with nothing to measure",
    ),
    Untestable(
        id="5.1-1",
        section="5.1",
        text="Control traffic goes over dedicated links.",
        reason="the model has no control traffic",
    ),
)
