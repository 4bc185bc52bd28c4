"""Claims of the hints paper: its expectations (4), results (5) and conclusions (6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise

from koala.lab.papers.comparisons import (
    LITTLE,
    MUCH,
    above,
    at_most,
    close,
    higher,
    highest,
    lower,
    lowest,
    share,
    shown,
    slightly_lower,
)
from koala.lab.papers.hints.points import (
    FRACTIONS,
    LEVELS,
    POLICIES,
    USUAL,
    Compared,
    Point,
    Reading,
    of,
    reading_of,
    response,
)
from koala.lab.papers.paper import Claim, Comparison, Found, Test, Untestable, numbered
from koala.lab.sim.runs import Level, Quantity

MIXED = tuple(fraction for fraction in FRACTIONS if 0 < fraction < 1)
RISING = tuple(fraction for fraction in FRACTIONS if fraction <= 0.6)
LATE = tuple(fraction for fraction in FRACTIONS if fraction > 0.6)
MANY = tuple(fraction for fraction in FRACTIONS if fraction >= 0.4)
OTHERS = ("NoNetwork", "PreferLocal")
FULL = 0.9
"""Share of its bandwidth above which a link counts as saturated."""
UP_TO = 0.30
charted = partial(Claim, figures=(2,))
"""Makes a claim about the paper's chart of results."""


def at(test: Callable[[Reading], Found]) -> Test:
    """Make a test that depends on the reading of the paper."""
    return lambda level: test(reading_of(level))


def three(reading: Reading, kind: str = "all", fraction: float = USUAL) -> dict[str, Quantity]:
    """Return the response times of the three policies."""
    return {policy: response(policy, fraction, reading, kind) for policy in POLICIES}


def among_three(
    phrase: Callable[[dict[str, Quantity]], Found], kind: str = "all", fraction: float = USUAL
) -> Test:
    """Test the response times of the three policies."""
    return at(lambda reading: phrase(three(reading, kind, fraction)))


# 1 and 4: what is expected.


def _later_than_predicted(reading: Reading) -> Iterator[Comparison]:
    for fraction in MANY:
        yield above(of("NoNetwork", "stretch.io", fraction, reading), 1 + MUCH)


def _bad_with_much_io(reading: Reading) -> Iterator[Comparison]:
    for fraction in MANY:
        found = three(reading, fraction=fraction)
        yield from highest(found["NoNetwork"], found.values())


EXPECTATIONS = {
    "1-1": charted(
        "Scheduling ought to take several resource types into account, not power alone.",
        among_three(lambda found: lower(found["PreferLocal"], found["NoNetwork"])),
        reading="PreferLocal has lower response times than NoNetwork, 20 % I/O-bound jobs",
    ),
    "1-2": charted(
        "One algorithm with rigid constraints for all can be outperformed by different ones "
        "for different types.",
        among_three(lambda found: lowest(found["Service"], found.values())),
        reading="Service has the lowest response times of the three, 20 % I/O-bound jobs",
    ),
    "4.1-1": charted(
        "With many I/O-bound jobs NoNetwork performs badly.",
        at(_bad_with_much_io),
        reading="highest of the three at 40, 60, 80 and 100 %",
    ),
    "4.1-2": Claim(
        "I/O-bound jobs finish considerably later than NoNetwork predicts, because they block.",
        at(_later_than_predicted),
        reading=f"they run longer than their length over their slice by {share(MUCH)}",
    ),
}

# 5.3: response times by class.


def _delayed(metric: str, name: str, reading: Reading) -> Quantity:
    """Return a measure of the jobs that Service runs below their preferred rate."""
    return Quantity(Compared(policy="Service", other="PreferLocal", reading=reading), metric, name)


def _slightly_slower(reading: Reading) -> Comparison:
    return above(_delayed("rate", "rate of those below it, in preferred rates", reading), 1 - MUCH)


def _sooner(reading: Reading) -> Comparison:
    return lower(
        _delayed("response", "their response under Service", reading),
        _delayed("other_response", "under PreferLocal", reading),
    )


BY_CLASS = {
    "5.3-1": charted(
        "NoNetwork fails to produce good schedules for I/O-bound jobs.",
        among_three(lambda found: highest(found["NoNetwork"], found.values()), "io"),
        reading="their response time is the highest of the three",
    ),
    "5.3-2": charted(
        "Hints improve the average response time of CPU-bound jobs.",
        among_three(lambda found: lowest(found["Service"], found.values()), "cpu"),
    ),
    "5.3-3": Claim(
        "With hints some jobs are processed at a rate below the preferred one.",
        at(lambda reading: above(of("Service", "below_preferred.cpu", USUAL, reading), 0)),
        reading="CPU-bound ones under Service",
    ),
    "5.3-4": Claim(
        "Their rate is slightly below the preferred one.",
        at(_slightly_slower),
        reading=f"these have {share(1 - MUCH)} of it in the mean, or more",
    ),
    "5.3-5": Claim(
        "Jobs below their preferred rate finish sooner than if they were delayed.",
        at(_sooner),
        reading="the same jobs under PreferLocal, which delays them",
    ),
}

# 5.4: response times with varying class representation.


def _degrades(reading: Reading) -> Iterator[Comparison]:
    for less, more in pairwise(RISING):
        yield higher(response("NoNetwork", more, reading), response("NoNetwork", less, reading))


def _degrades_relatively(reading: Reading) -> Iterator[Comparison]:
    for less, more in pairwise(RISING):
        yield shown(
            f"NoNetwork / PreferLocal at {share(more)} > at {share(less)}",
            lambda a, b, c, d: a / b - c / d,
            *(response(policy, part, reading) for part in (more, less) for policy in OTHERS),
        )


def _by_choice_of_site(level: Level) -> Found:
    if level not in LEVELS:
        return ()  # other readings keep their own share that is accepted
    reading = reading_of(level)
    insists = Point(policy="Service", io_fraction=0.0, reading=replace(reading, accept=1.0))
    service = Quantity(insists, "response.all", "response.all of Service that insists, 0 %")
    return slightly_lower(service, response("PreferLocal", 0.0, reading))


def _more_remote(reading: Reading) -> Iterator[Comparison]:
    for fraction in MIXED:
        local, service = (
            of(policy, "remote.io", fraction, reading) for policy in ("PreferLocal", "Service")
        )
        yield higher(local, service)


def _differs(reading: Reading) -> Iterator[Comparison]:
    for fraction in RISING[1:]:
        found = three(reading, fraction=fraction)
        yield lower(found["Service"], found["PreferLocal"])


def _saturates(reading: Reading) -> Iterator[Comparison]:
    for fraction in LATE:
        for policy in POLICIES:
            yield above(of(policy, "busiest_link", fraction, reading), FULL)


def _converge(*policies: str) -> Test:
    def test(reading: Reading) -> Iterator[Comparison]:
        for fraction in LATE:
            found = three(reading, fraction=fraction)
            for policy in policies:
                yield from close(found[policy], found["Service"])

    return at(test)


BY_SHARE = {
    "5.4-1": charted(
        "With CPU-bound jobs alone NoNetwork performs like PreferLocal.",
        among_three(lambda found: close(found["NoNetwork"], found["PreferLocal"]), fraction=0.0),
    ),
    "5.4-2": charted(
        "With CPU-bound jobs alone Service performs better.",
        among_three(lambda found: lower(found["Service"], found["PreferLocal"]), fraction=0.0),
    ),
    "5.4-3": charted(
        "With CPU-bound jobs alone Service performs slightly better.",
        among_three(
            lambda found: slightly_lower(found["Service"], found["PreferLocal"]), fraction=0.0
        ),
        reading=f"by less than {share(MUCH)}",
    ),
    "5.4-3a": charted(
        "With CPU-bound jobs alone Service performs slightly better, as it does not prefer local "
        "sites.",
        _by_choice_of_site,
        reading="another reading of the same sentence: what is due to this cause alone. Service "
        "accepts no rate below the preferred one here, so that it differs by the choice of the "
        "site only",
    ),
    "5.4-4": charted(
        "With more I/O-bound jobs the performance of NoNetwork degrades.",
        at(_degrades),
        reading="its response time ascends from 0 to 60 %, as it stands",
    ),
    "5.4-5": charted(
        "NoNetwork degrades as the network gains importance.",
        at(_degrades_relatively),
        reading="relative to PreferLocal, which looks at links: I/O-bound jobs are half as long, "
        "so that every policy has less to do",
    ),
    "5.4-6": Claim(
        "PreferLocal schedules more I/O-bound jobs remotely.",
        at(_more_remote),
        reading="than Service, 20 to 80 %",
    ),
    "5.4-7": charted(
        "The remote I/O-bound jobs of PreferLocal account for its difference with Service.",
        at(_differs),
        reading="the difference itself: Service has lower response times at 20, 40 and 60 %; that "
        "PreferLocal runs more of them remotely is 5.4-6",
    ),
    "5.4-8": charted(
        "Past 60 % the network links saturate.",
        at(_saturates),
        reading=f"the busiest one carries more than {share(FULL)}, at 80 and 100 %",
    ),
    "5.4-9": charted(
        "Past 60 % the three algorithms converge.",
        _converge(*OTHERS),
        reading=f"within {share(LITTLE)} of Service at 80 and 100 %",
    ),
    "5.4-10": charted(
        "Past 60 % PreferLocal and Service converge.",
        _converge("PreferLocal"),
        reading=f"these two alone, within {share(LITTLE)}",
    ),
}

# 6: conclusions.


def _gains(reading: Reading) -> tuple[Quantity, ...]:
    """Return the responses under Service and PreferLocal, at every share."""
    return tuple(
        response(policy, fraction, reading)
        for fraction in FRACTIONS
        for policy in ("Service", "PreferLocal")
    )


def _largest_gain(*values: float) -> float:
    pairs = zip(values[::2], values[1::2], strict=True)
    return max(1 - service / other for service, other in pairs)


def _significantly(reading: Reading) -> Comparison:
    text = f"somewhere Service is lower than PreferLocal by {share(MUCH)} of it"
    return shown(text, lambda *values: _largest_gain(*values) - MUCH, *_gains(reading))


def _up_to(reading: Reading) -> Comparison:
    text = f"the largest gain over PreferLocal is at most {share(UP_TO + LITTLE)}"
    return shown(text, lambda *values: UP_TO + LITTLE - _largest_gain(*values), *_gains(reading))


def _significant_on_average(reading: Reading) -> Iterator[Comparison]:
    found = three(reading)
    for policy in OTHERS:
        yield shown(
            f"{found['Service']} < {found[policy]} by {share(MUCH)} of it",
            lambda service, other: (1 - MUCH) * other - service,
            *(found["Service"], found[policy]),
        )


def _never_worse(reading: Reading) -> Iterator[Comparison]:
    for fraction in FRACTIONS:
        found = three(reading, fraction=fraction)
        for policy in OTHERS:
            yield at_most(found["Service"], found[policy])


CONCLUSIONS = {
    "6-1": charted(
        "Average response times improve significantly.",
        at(_significant_on_average),
        reading=f"with 20 % I/O-bound jobs, by {share(MUCH)} of each of the others",
    ),
    "6-2": charted(
        "Average response times improve significantly in some cases.",
        at(_significantly),
        reading=f"at some share of I/O-bound jobs, by {share(MUCH)} of PreferLocal",
    ),
    "6-3": charted(
        "Average response times improve by up to 30 % in some cases.",
        at(_up_to),
        reading=f"at no share by more than {share(UP_TO + LITTLE)} of PreferLocal",
    ),
    "A-1": charted(
        "Better schedules can be obtained with hints used intelligently.",
        at(_never_worse),
        reading=f"Service is nowhere worse than another by {share(LITTLE)}",
    ),
}

CLAIMS = numbered(EXPECTATIONS, BY_CLASS, BY_SHARE, CONCLUSIONS)

UNTESTABLE = numbered(
    {
        "1-4": Untestable(
            "Jobs with much computation and little I/O hardly suffer from less bandwidth; "
            "I/O-bound ones suffer a lot, and less from changes in computing power.",
            "built into the model: a link of 6 Mb/s lets an I/O-bound job run at 1,537 MIPS and a "
            "CPU-bound one at 47 million",
        ),
        "4.2-1": Untestable(
            "More power, or more bandwidth, than MIPS_eff asks for makes no job faster.",
            "follows from the formula; PreferLocal and Service book just that",
        ),
        "2-1": Untestable(
            "A network simulator at packet level allows for accurate simulation.",
            "ours shares links as fluids; there is no packet simulator to compare it with here",
        ),
        "1-3": Untestable(
            "Programmable architectures, in which the application brings its scheduling "
            "mechanism, are promising.",
            "an outlook; policies of other packages are taken by entry point, and contained",
        ),
        "4.3-1": Untestable(
            "Service can be seen as delivering the same service to each job of a class.",
            "a way of seeing it, with nothing to measure",
        ),
        "5.2-1": Untestable(
            "I/O-bound jobs are better off with local resources alone.",
            "the meaning of their hint, and an input; 5.3-1 and 5.4-6 test what follows",
        ),
        "5.4-11": Untestable(
            "CPU-bound jobs use up the local resources.",
            "an explanation; its consequence is tested as 5.4-6",
        ),
        "5.1-1": Untestable(
            "Control traffic goes over dedicated links.",
            "the model has no control traffic",
        ),
    }
)
