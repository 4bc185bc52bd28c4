"""Claims of the hints paper: its expectations (4), results (5) and conclusions (6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

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
from koala.lab.papers.paper import Comparison, Found, Test
from koala.lab.papers.sentences import read_sentences
from koala.lab.sim.runs import Level, Quantity

MIXED = tuple(fraction for fraction in FRACTIONS if 0 < fraction < 1)
RISING = tuple(fraction for fraction in FRACTIONS if fraction <= 0.6)
LATE = tuple(fraction for fraction in FRACTIONS if fraction > 0.6)
MANY = tuple(fraction for fraction in FRACTIONS if fraction >= 0.4)
OTHERS = ("NoNetwork", "PreferLocal")
FULL = 0.9
"""Share of its bandwidth above which a link counts as saturated."""
UP_TO = 0.30


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
    "1-1": among_three(lambda found: lower(found["PreferLocal"], found["NoNetwork"])),
    "1-2": among_three(lambda found: lowest(found["Service"], found.values())),
    "4.1-1": at(_bad_with_much_io),
    "4.1-2": at(_later_than_predicted),
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
    "5.3-1": among_three(lambda found: highest(found["NoNetwork"], found.values()), "io"),
    "5.3-2": among_three(lambda found: lowest(found["Service"], found.values()), "cpu"),
    "5.3-3": at(lambda reading: above(of("Service", "below_preferred.cpu", USUAL, reading), 0)),
    "5.3-4": at(_slightly_slower),
    "5.3-5": at(_sooner),
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
    "5.4-1": among_three(
        lambda found: close(found["NoNetwork"], found["PreferLocal"]), fraction=0.0
    ),
    "5.4-2": among_three(lambda found: lower(found["Service"], found["PreferLocal"]), fraction=0.0),
    "5.4-3": among_three(
        lambda found: slightly_lower(found["Service"], found["PreferLocal"]), fraction=0.0
    ),
    "5.4-3a": _by_choice_of_site,
    "5.4-4": at(_degrades),
    "5.4-5": at(_degrades_relatively),
    "5.4-6": at(_more_remote),
    "5.4-7": at(_differs),
    "5.4-8": at(_saturates),
    "5.4-9": _converge(*OTHERS),
    "5.4-10": _converge("PreferLocal"),
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
    "6-1": at(_significant_on_average),
    "6-2": at(_significantly),
    "6-3": at(_up_to),
    "A-1": at(_never_worse),
}

SENTENCES = read_sentences(
    Path(__file__).parent, {**EXPECTATIONS, **BY_CLASS, **BY_SHARE, **CONCLUSIONS}
)
