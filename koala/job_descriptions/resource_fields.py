"""Readers of the resources that a component asks of its site, such as GPUs and licences."""

from __future__ import annotations

import re
import shlex
from functools import partial

from koala.errors import SpecError
from koala.job_descriptions import fields
from koala.job_descriptions.fields import AttributeText
from koala.job_descriptions.tree import Literal, Sequence

CONSTRAINT_CHARACTERS_MAX = 256
NATIVE_CHARACTERS_MAX = 1024
NATIVE_WORDS_MAX = 50
LICENSES_MAX = 50
COUNT_MAX = 1_000_000

_CONSTRAINT = re.compile(r"[A-Za-z0-9_.:=*+&|()\[\]-]+")
_LICENSE = re.compile(r"[A-Za-z0-9_.@/-]+")

count = partial(fields.whole, low=1, high=COUNT_MAX)


def constraint(attribute: AttributeText) -> str:
    """Read features of machines: names with & and |."""
    literal = fields.string(attribute)
    text = "".join(literal.text.split())
    is_word = _CONSTRAINT.fullmatch(text) and not text.startswith("-")
    if not is_word or len(text) > CONSTRAINT_CHARACTERS_MAX:
        raise attribute.wrong(literal, "names of features with & or |, such as ib or ib&haswell")
    return text


def licenses(attribute: AttributeText) -> tuple[tuple[str, int], ...]:
    """Read licences: NAME, NAME:COUNT or (NAME COUNT), any number of them."""
    counts: dict[str, int] = {}
    expected = "NAME, NAME:COUNT or (NAME COUNT)"
    for value in attribute.relation.values:
        match value:
            case Sequence(values=(Literal() as name, Literal(text=number))):
                pairs = [(name.text, number)]
            case Literal() as name:
                words = [word.strip() for word in name.text.split(",")]
                parts = [word.partition(":") for word in words]
                pairs = [(word, number if colon else "1") for word, colon, number in parts]
            case _:
                raise attribute.error(f"found another form, expected {expected}", value)
        for word, number in pairs:
            is_count = re.fullmatch(r"[1-9][0-9]{0,6}", number) and int(number) <= COUNT_MAX
            if not _LICENSE.fullmatch(word) or word.startswith("-") or not is_count:
                raise attribute.wrong(name, f"{expected}, with a count from 1 to {COUNT_MAX}")
            if word in counts:
                raise attribute.wrong(name, "each licence once")
            counts[word] = int(number)
    if len(counts) > LICENSES_MAX:
        raise attribute.error(f"found {len(counts)} licences, expected at most {LICENSES_MAX}")
    return tuple(counts.items())


def licenses_text(value: tuple[tuple[str, int], ...]) -> list[str]:
    """Format licences as the values that read back as these."""
    return [f"{name}:{number}" for name, number in value]


def native(attribute: AttributeText) -> str:
    """Read options for the batch system, on one line; the site decides which it takes."""
    literal = fields.string(attribute)
    try:
        words = native_words(literal.text)
    except SpecError as error:
        raise attribute.wrong(literal, error.message) from None
    return shlex.join(words)


def native_words(text: str) -> list[str]:
    """Split options for the batch system into words. Raises SpecError with what is allowed."""
    limit = NATIVE_CHARACTERS_MAX
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    is_short = len(text) <= limit and len(words) <= NATIVE_WORDS_MAX
    if not text.isprintable() or not is_short or not words or not words[0].startswith("-"):
        expected = f"options of the batch system on one line of at most {limit} characters"
        raise SpecError(f'{expected}, such as "--reservation=course"')
    return words
