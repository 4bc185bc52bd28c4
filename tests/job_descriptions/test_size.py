"""Long and deep texts: no recursion anywhere, and time that grows with the length only."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

import pytest

from koala.errors import SpecError
from koala.job_descriptions import Tree, canonical_json, evaluate, parse, unparse
from tests.job_descriptions.outcomes import outcome

DEPTH = 5_000  # Python itself gives up at 1,000
LONG = 500_000
GROWTH_MAX = 40  # for ten times the length; quadratic would be 100


def deep_texts(depth: int) -> dict[str, str]:
    """Each way to nest, this deep."""
    return {
        "sequences": "a=" + "(" * depth + "b" + ")" * depth,
        "requests": "&(" * depth + "a=b" + ")" * depth,
        "defaults": "a=" + "$(X " * depth + "b" + ")" * depth,
        "concatenation": "a=b" + "#c" * depth,
        "variables": "a=" + "$(X)" * depth,
    }


DEEP = deep_texts(DEPTH)


@pytest.fixture(autouse=True)
def _no_garbage_from_other_tests() -> Iterator[None]:
    """A collection in between would take time in proportion to what other tests have left."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_a_deep_text_passes_through_everything(text: str) -> None:
    tree = parse(text)
    assert parse(unparse(tree)) == tree
    assert parse(unparse(tree, pretty=True)) == tree
    assert len(canonical_json(tree)) > DEPTH
    assert canonical_json(evaluate(tree, {"X": "x"}))
    assert repr(tree)
    assert hash(tree.root) == hash(parse(text).root)


@pytest.mark.parametrize("text", ["(", "a=(", "a=$(X ", "&(", "+(&(", "a=b#", "a=((((b)", "|"])
def test_a_deep_text_that_breaks_off_is_an_error_with_position(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse(text + text[-2:] * DEPTH)
    assert caught.value.position is not None


REPEATED = {
    "values": ("a=", "b ", "c"),
    "quotes": ('a="', '""', 'x"'),
    "delimited": ("a=^|", "||", "x|"),
    "literal": ("a=", "x", ""),
    "comments": ("a=b", "(* c *)", ""),
    "comment": ("a=b(*", " * ", "*)"),
    "lines": ("&(a=b)", "\r\n", "(c=d)"),
    "clauses": ("&", "(a=b)", ""),
    "sequences": ("a=", "(b)", ""),
    "variables": ("a=", "$(X)", ""),
    "definitions": ("&(rsl_substitution=(X x)", "(Y $(X))", ")"),
    "open quote": ("a=b ", '"" ', '"'),
    "blanks before a bad character": ("a=b", " ", "*"),
    "no end": ("&(a=b", " c", ""),
}


def _seconds(parts: tuple[str, str, str], length: int) -> float:
    begin, middle, end = parts
    text = begin + middle * (length // len(middle)) + end
    start = time.process_time()
    answer = outcome(lambda: evaluate(parse(text), {"X": "x"}))
    assert isinstance(answer, Tree) or answer.position is not None
    return time.process_time() - start


@pytest.mark.parametrize("parts", REPEATED.values(), ids=REPEATED)
def test_a_long_text_takes_time_in_proportion_to_its_length(parts: tuple[str, str, str]) -> None:
    """The least of some looks: a machine that serves others adds to a time and takes from none."""
    short = max(min(_seconds(parts, LONG // 80) for _ in range(3)), 0.002)
    looks = (_seconds(parts, LONG // 8) for _ in range(5))
    assert any(long / short < GROWTH_MAX for long in looks)
