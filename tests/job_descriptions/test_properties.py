"""Laws over random trees, texts and jobs (more of them: `tests/fuzz/descriptions.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from koala.core.model.job_spec import JobSpec
from koala.core.model.values import UserName
from koala.errors import SpecError
from koala.job_descriptions import (
    Tree,
    parse,
    read_job,
    unparse,
    write_job,
)
from koala.job_descriptions.lexer import Lexer
from koala.job_descriptions.tree import AnyNode, Compound
from tests.job_descriptions.outcomes import outcome
from tests.job_descriptions.strategies import jobs, near_texts, trees

few = settings(max_examples=25)
"""For trees, which take long to draw; `make fuzz` reads many more."""


@few
@given(tree=trees, pretty=st.booleans())
def test_any_tree_parses_back_from_its_text(tree: Tree, pretty: bool) -> None:
    text = unparse(tree, pretty=pretty)
    assert parse(text) == tree
    assert not text.endswith(("'", '"'))


@given(text=near_texts)
@example(text="""&(a=b'c''d'"e"f)( g\n=\t"h" i )""")
@example(text='+(a="b)(&(c=d""e)(f=(g=h)))')
@example(text="&(a=b)(c=" + "d" * 50_000)
def test_relations_read_as_one_piece_give_the_tree_and_the_error_of_their_tokens(text: str) -> None:
    """`Lexer.relation` is a second grammar of a small part of the language."""
    piecewise = outcome(lambda: parse(text))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Lexer, "relation", lambda _: None)
        by_tokens = outcome(lambda: parse(text))
    if isinstance(by_tokens, SpecError):
        assert isinstance(piecewise, SpecError)
        assert (piecewise.message, piecewise.position) == (by_tokens.message, by_tokens.position)
    else:
        assert piecewise == by_tokens
        assert [*_offsets(piecewise.root)] == [*_offsets(by_tokens.root)]


def _offsets(node: AnyNode) -> Iterator[int]:
    yield node.offset
    for value in node.operands if isinstance(node, Compound) else getattr(node, "values", ()):
        yield from _offsets(value)


@settings(max_examples=20)
@given(spec=jobs())
def test_a_written_job_reads_back_the_same(spec: JobSpec) -> None:
    spec = replace(spec, owner=UserName("ann"))
    reading = read_job(write_job(spec), owner="ann")
    assert reading.spec == spec
    assert not reading.is_dry_run


def test_a_job_that_rsl_cannot_say_is_not_written() -> None:
    spec = read_job("&(executable=a)").spec
    component = spec.components[0]
    for wrong in (
        replace(component, executable=""),
        replace(component, arguments=("a\0b",)),
        replace(component, wall_time_s=90.5),
        replace(component, processors=0),
        replace(component, environment=(("A", "1"), ("A", "2"))),
    ):
        with pytest.raises(SpecError, match="cannot be written as RSL"):
            write_job(replace(spec, components=(wrong,)))
    with pytest.raises(SpecError, match="no components"):
        write_job(replace(spec, components=()))
    with pytest.raises(SpecError, match="progress"):
        write_job(replace(spec, progress="SQ"))
