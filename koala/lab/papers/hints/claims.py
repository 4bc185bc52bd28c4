"""Claims of the hints paper: how their tests, written in `sentences.toml`, are read, and the tests
that are not written there.

A phrase there is a policy and a metric, with `io=40` at 40 % of I/O-bound jobs (else 20 %); or
`delayed`, a metric of the jobs that Service runs below their preferred rate, and its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from koala.lab.papers.comparisons import LITTLE, MUCH, share, shown, slightly_lower
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
from koala.lab.papers.sentences import Row, read_sentences
from koala.lab.papers.written_tests import compared
from koala.lab.sim.runs import Level, Quantity

OTHERS = ("NoNetwork", "PreferLocal")
GROUPS = {"POLICIES": POLICIES, "OTHERS": OTHERS, "REST": POLICIES[1:]}
UP_TO = 0.30


def quantity(reading: Reading, words: Sequence[str]) -> Quantity:
    """Read a phrase."""
    if words[0] == "delayed":
        _, metric, name = words
        pair = Compared(policy="Service", other="PreferLocal", reading=reading)
        return Quantity(pair, metric, name)
    percent = [int(word.removeprefix("io=")) for word in words if word.startswith("io=")]
    policy, metric = (word for word in words if not word.startswith("io="))
    return of(policy, metric, percent[0] / 100 if percent else USUAL, reading)


Phrase = Callable[[Level, Reading], Found]


def _test_of(row: Row, phrase: Phrase | None) -> Test:
    def test(level: Level) -> Found:
        reading = reading_of(level)
        if phrase is not None:
            return phrase(level, reading)
        return compared(row["test"], partial(quantity, reading), GROUPS)

    return test


def _by_choice_of_site(level: Level, reading: Reading) -> Found:
    if level not in LEVELS:
        return ()  # other readings keep their own share that is accepted
    insists = Point(policy="Service", io_fraction=0.0, reading=replace(reading, accept=1.0))
    service = Quantity(insists, "response.all", "response.all of Service that insists, 0 %")
    return slightly_lower(service, response("PreferLocal", 0.0, reading))


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


def _significantly(_level: Level, reading: Reading) -> Comparison:
    text = f"somewhere Service is lower than PreferLocal by {share(MUCH)} of it"
    return shown(text, lambda *values: _largest_gain(*values) - MUCH, *_gains(reading))


def _up_to(_level: Level, reading: Reading) -> Comparison:
    text = f"the largest gain over PreferLocal is at most {share(UP_TO + LITTLE)}"
    return shown(text, lambda *values: UP_TO + LITTLE - _largest_gain(*values), *_gains(reading))


TESTS: dict[str, Phrase] = {
    "5.4-3a": _by_choice_of_site,
    "6-2": _significantly,
    "6-3": _up_to,
}
SENTENCES = read_sentences(Path(__file__).parent, TESTS, _test_of)
