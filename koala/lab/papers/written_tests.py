"""Tests that a sentence has written beside it, in `sentences.toml`.

    test = ["lower: total LS-DO, total GS", "each higher_by: MUCH, fail_rate wait=100/inf, ..."]

A line is a comparison (`koala.lab.papers.comparisons`) and its arguments: numbers, and phrases, of
which the paper makes quantities. In a phrase `a/b` and names of groups stand for several words, and
give several quantities; a text in quotation marks is one word, and alone a text. `*` spreads
several quantities over the arguments; `each` compares the first of all arguments, then the second
of all, and so on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from koala.lab.papers import comparisons
from koala.lab.papers.comparisons import LITTLE, MUCH
from koala.lab.papers.paper import Found

Quantities = Callable[[Sequence[str]], Any]
"""Makes the quantity, or the quantities, of the words of a phrase."""
Groups = Mapping[str, Sequence[str]]

_ARGUMENT = re.compile(r'(?:[^,"]|"[^"]*")+')
_TEXT = re.compile(r'"[^"]*"')
_WORD = re.compile(r'"([^"]*)"|(\S+)')
_BEGUN = re.compile(r"([^=.]*[=.])?(.*)")
_NAMED = re.compile(r"(\w+)=(\S+)")
_LITERALS = {"MUCH": MUCH, "LITTLE": LITTLE, "%": "%", "s": "s"}


def compared(
    lines: Iterable[str],
    quantities: Quantities,
    groups: Groups,
    own: Mapping[str, Any] | None = None,
) -> Iterator[Found]:
    """Make the comparisons of these lines; `own` are comparisons of the paper alone."""
    known = {**vars(comparisons), **(own or {})}
    for line in lines:
        name, _, rest = line.partition(": ")
        values: list[Any] = []
        options: dict[str, Any] = {}
        for text in map(str.strip, _ARGUMENT.findall(rest)):
            named = _NAMED.fullmatch(text)
            if named and named[1] in ("within", "above"):
                options[named[1]] = _literal(named[2])
            elif _TEXT.fullmatch(text):
                values.append(text.strip('"'))
            elif text.startswith("*"):
                values += _phrase(text[1:], quantities, groups)
            else:
                literal = _literal(text)
                values.append(_phrase(text, quantities, groups) if literal is None else literal)
        compare = known[name.removeprefix("each ")]
        if name.startswith("each "):
            for row in _side_by_side(values):
                yield compare(*row, **options)
        else:
            yield compare(*values, **options)


def _literal(text: str) -> Any:  # noqa: ANN401
    """Read a number, MUCH, LITTLE or a unit; None if it is none of these."""
    if text in _LITERALS:
        return _LITERALS[text]
    try:
        return float(text)
    except ValueError:
        return None


def _phrase(text: str, quantities: Quantities, groups: Groups) -> Any:  # noqa: ANN401
    choices = [
        (quoted,) if quoted else _choices(word, groups) for quoted, word in _WORD.findall(text)
    ]
    made = [quantities(words) for words in product(*choices)]
    return made if any(len(words) > 1 for words in choices) else made[0]


def _choices(word: str, groups: Groups) -> Sequence[str]:
    begin, end = _BEGUN.findall(word)[0]
    return [f"{begin}{one}" for one in groups.get(end) or end.split("/")]


def _side_by_side(values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the first of all values, then the second of all; one that is no list is in each."""
    count = max(len(value) for value in values if isinstance(value, list))
    return zip(
        *(value if isinstance(value, list) else [value] * count for value in values), strict=True
    )
