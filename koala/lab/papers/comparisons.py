"""Comparisons of which the tests of claims are made: lower, higher by much, close, ascending ...

A comparison names quantities, and a contrast of them that is positive where the claim is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean
from string import ascii_lowercase

from koala.lab.papers.paper import Comparison, Part, Test, listed
from koala.lab.sim.runs import ANY, ARITHMETIC, Quantity


def share(value: float) -> str:
    """Format a share as text: 10 %."""
    return f"{100 * value:g} %"


LITTLE = 0.10
"""Close to, about the same, little influence: within this share of the other."""
EXACT = 1e-9
"""Tolerance for rounding where a quantity is a number."""
MUCH = 0.25
"""Much, significantly, a large increase: by at least this share. Slightly: by less than this."""
_NAMES = {"LITTLE": LITTLE, "MUCH": MUCH, "abs": abs, "max": max, "mean": fmean, "min": min}
"""Bounds and functions that a formula may name."""


def once(*comparisons: Comparison) -> Test:
    """Test once, because no load matters."""
    return lambda level: comparisons if level == ANY else ()


def exact(metric: str, name: str = "") -> Quantity:
    """Return a value of a paper's arithmetic as a quantity."""
    return Quantity(ARITHMETIC, metric, name or metric)


def shown(text: str, contrast: Callable[..., float], *quantities: Quantity) -> Comparison:
    """Make a comparison of a special form."""
    return Comparison(text=text, of=quantities, contrast=contrast)


def formula(text: str, contrast: str, *quantities: Quantity) -> Comparison:
    """Make a comparison of a special form: a contrast of a, b, c, ..., which are the values in
    their order; or of `one` and `other`, the first and the second half of them. `{0}` in the text
    is the name of the first one."""
    code = compile(contrast, text, "eval")

    def value(*values: float) -> float:
        half = len(values) // 2
        names = {**dict(zip(ascii_lowercase, values, strict=False)), **_NAMES}
        names |= {"one": values[:half], "other": values[half:]}
        found: float = eval(code, {"__builtins__": {}}, names)
        return found

    return shown(text.format(*quantities), value, *quantities)


def above(one: Quantity, bound: float, unit: str = "") -> Comparison:
    """Test that a quantity is higher than a number."""
    return shown(f"{one} > {bound:g} {unit}".rstrip(), lambda value: value - bound, one)


def below(one: Quantity, bound: float, unit: str = "") -> Comparison:
    """Test that a quantity is lower than a number."""
    return shown(f"{one} < {bound:g} {unit}".rstrip(), lambda value: bound - value, one)


def equal(one: Quantity, number: float, *, within: float = EXACT) -> Comparison:
    """Test that a quantity is this number, but for rounding or a tolerance."""
    return shown(f"{one} = {number:g}", lambda value: within - abs(value - number), one)


def none(one: Quantity) -> Comparison:
    """Test that a quantity is zero."""
    return shown(f"{one} = 0", lambda value: EXACT - value, one)


def near(one: Quantity, number: float, within: float, unit: str = "") -> Comparison:
    """Test that a quantity is within a tolerance of a number."""
    text = f"{one} = {number:g} ± {within:g} {unit}".rstrip()
    return shown(text, lambda value: within - abs(value - number), one)


def same(one: Quantity, other: Quantity) -> Comparison:
    """Test that two quantities are equal, but for rounding."""
    return shown(f"{one} = {other}", lambda a, b: EXACT - abs(a - b), one, other)


def always(one: Quantity, number: float) -> Comparison:
    """Test that a quantity is this number in every run."""
    return replace(equal(one, number), is_of_every_run=True)


def always_same(one: Quantity, other: Quantity) -> Comparison:
    """Test that two quantities are equal in every run."""
    return replace(same(one, other), is_of_every_run=True)


def lower(one: Quantity, other: Quantity) -> Comparison:
    """Test that one is lower than the other."""
    return shown(f"{one} < {other}", lambda a, b: b - a, one, other)


def higher(one: Quantity, other: Quantity) -> Comparison:
    """Test that one is higher than the other."""
    return shown(f"{one} > {other}", lambda a, b: a - b, one, other)


def _size(comparison: Comparison) -> Comparison:
    return replace(comparison, part=Part.SIZE)


def lower_by(least: float, one: Quantity, other: Quantity) -> tuple[Comparison, ...]:
    """Test that one is lower than the other, and by at least this share of one."""
    text, factor = f"{one} < {other} by at least {share(least)}", 1 + least
    return lower(one, other), _size(shown(text, lambda a, b: b - factor * a, one, other))


def higher_by(least: float, one: Quantity, other: Quantity) -> tuple[Comparison, ...]:
    """Test that one is higher than the other, and by at least this share of the other."""
    text, factor = f"{one} > {other} by at least {share(least)}", 1 + least
    return higher(one, other), _size(shown(text, lambda a, b: a - factor * b, one, other))


def share_higher_by(least: float, one: Quantity, other: Quantity) -> tuple[Comparison, ...]:
    """Test that one share, of 1 at most, is higher than the other, and that the other's shortfall
    from 1 exceeds its own by at least this part.

    A ratio near 1 cannot be 25 % higher than another; what it lacks can be 25 % less.
    """
    text, factor = f"{one} > {other}, with a shortfall lower by at least {share(least)}", 1 + least
    size = shown(text, lambda a, b: (1 - b) - factor * (1 - a), one, other)
    return higher(one, other), _size(size)


def at_most(one: Quantity, other: Quantity, *, above: float = LITTLE) -> Comparison:
    """Test that one exceeds the other by less than this share; it may be lower."""
    factor = 1 + above
    text = f"{one} < {factor:.2f} × {other}"
    return shown(text, lambda a, b: factor * b - a, one, other)


def close(one: Quantity, other: Quantity, *, within: float = LITTLE) -> tuple[Comparison, ...]:
    """Test that the two differ by less than this share."""
    return at_most(one, other, above=within), at_most(other, one, above=within)


def slightly_lower(one: Quantity, other: Quantity) -> tuple[Comparison, ...]:
    """Test that one is lower, but not by much."""
    return lower(one, other), _size(at_most(other, one, above=MUCH))


def lowest(one: Quantity, others: Iterable[Quantity]) -> tuple[Comparison, ...]:
    """Test that one is lower than each of the others."""
    return tuple(lower(one, other) for other in others if other != one)


def highest(one: Quantity, others: Iterable[Quantity]) -> tuple[Comparison, ...]:
    """Test that one is higher than each of the others."""
    return tuple(higher(one, other) for other in others if other != one)


def highest_by(least: float, one: Quantity, others: Iterable[Quantity]) -> tuple[Comparison, ...]:
    """Test that one is higher than each of the others, and by at least this share of it."""
    return listed(higher_by(least, one, other) for other in others if other != one)


def all_lower(ones: Iterable[Quantity], others: Sequence[Quantity]) -> tuple[Comparison, ...]:
    """Test that each of these is lower than each of the others."""
    return tuple(lower(one, other) for one in ones for other in others)


def all_higher(ones: Iterable[Quantity], others: Sequence[Quantity]) -> tuple[Comparison, ...]:
    """Test that each of these is higher than each of the others."""
    return tuple(higher(one, other) for one in ones for other in others)


def all_close(
    one: Quantity, others: Iterable[Quantity], *, within: float = LITTLE
) -> tuple[Comparison, ...]:
    """Test that one is close to each of the others."""
    return tuple(found for other in others for found in close(one, other, within=within))


def _among(
    text: str, contrast: Callable[..., float], one: Quantity, others: Iterable[Quantity]
) -> Comparison:
    """Compare one with the others; the contrast takes its value, and a list of theirs."""
    rest = [other for other in others if other != one]
    return shown(text, lambda value, *values: contrast(value, values), one, *rest)


def best_of(one: Quantity, others: Iterable[Quantity]) -> Comparison:
    """Test that one is lower than the lowest of the others."""
    text = f"{one} is the lowest of all"
    return _among(text, lambda value, rest: min(rest) - value, one, others)


def not_highest(one: Quantity, others: Iterable[Quantity]) -> Comparison:
    """Test that one is lower than at least one of the others."""
    text = f"{one} is not the highest"
    return _among(text, lambda value, rest: max(rest) - value, one, others)


def ascending(*quantities: Quantity) -> tuple[Comparison, ...]:
    """Test that each is lower than the next."""
    return tuple(lower(one, other) for one, other in pairwise(quantities))


def _middle(value: float, rest: Sequence[float]) -> float:
    return (min(value, *rest) + max(value, *rest)) / 2


def good(one: Quantity, others: Iterable[Quantity]) -> Comparison:
    """Test that one is closer to the best of all than to the worst."""
    text = f"{one} in the lower half from best to worst"
    return _among(text, lambda value, rest: _middle(value, rest) - value, one, others)


def bad(one: Quantity, others: Iterable[Quantity]) -> Comparison:
    """Test that one is closer to the worst of all than to the best."""
    text = f"{one} in the upper half from best to worst"
    return _among(text, lambda value, rest: value - _middle(value, rest), one, others)


def ratio_higher(
    one: tuple[Quantity, Quantity], other: tuple[Quantity, Quantity], *, by: float = 0.0
) -> Comparison:
    """Test that the first of one pair exceeds its second by more than in the other pair, by this
    share of the latter."""
    factor = 1 + by
    more = f" by {share(by)}" if by else ""
    return shown(
        f"({one[0]} / {one[1]}) - 1 > ({other[0]} / {other[1]}) - 1{more}",
        lambda a, b, c, d: (a / b - 1) - factor * (c / d - 1),
        *one,
        *other,
    )


def ratio_higher_by(
    least: float, one: tuple[Quantity, Quantity], other: tuple[Quantity, Quantity]
) -> tuple[Comparison, ...]:
    """Test that the first of one pair exceeds its second by more than in the other pair, and by at
    least this share of the latter."""
    return ratio_higher(one, other), _size(ratio_higher(one, other, by=least))
