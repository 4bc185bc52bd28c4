"""The grammar, rule by rule: what parses, to which tree, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from koala.errors import SpecError
from koala.job_descriptions import canonical_json, evaluate, parse, unparse
from koala.job_descriptions.lexer import Lexer
from koala.job_descriptions.tree import AnyNode, Compound
from tests.job_descriptions.examples import EVALUATED, REFUSED, TREES, UNEVALUABLE
from tests.job_descriptions.outcomes import outcome

PIECES = (
    *"+&|()=<>!\"'^#$*?~ \t\n\r\0\x0bab1é",
    "(*", "*)", "$(", "<=", "!=", '""', "&(", ")(", "rsl_substitution=", "(A a)", "$(A)", "count=",
    "executable=", "+(&(", "))", "environment=(", "deadline=", "inputFile=(f 1K)", "label=x",
)  # fmt: skip
"""Pieces of texts that are nearly RSL, and sometimes are."""


@pytest.mark.parametrize(("text", "tree"), TREES)
def test_a_text_parses_to_its_tree(text: str, tree: Any) -> None:
    assert json.loads(canonical_json(parse(text))) == tree
    assert json.loads(canonical_json(parse(text.encode()))) == tree


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_rsl_is_refused_with_its_position(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse(text)
    position = caught.value.position
    assert position is not None
    lines = text.split("\n")
    assert 1 <= position.line <= len(lines)
    assert 1 <= position.column <= len(lines[position.line - 1]) + 1


@pytest.mark.parametrize(("text", "tree"), EVALUATED)
def test_a_text_evaluates_to_literals(text: str, tree: Any) -> None:
    assert json.loads(canonical_json(evaluate(parse(text)))) == tree


@pytest.mark.parametrize("text", UNEVALUABLE)
def test_what_cannot_be_evaluated_parses_and_is_refused_then(text: str) -> None:
    tree = parse(text)
    with pytest.raises(SpecError) as caught:
        evaluate(tree)
    assert caught.value.position is not None


@pytest.mark.parametrize("pretty", [False, True])
def test_an_unparsed_tree_parses_to_the_same_tree(pretty: bool) -> None:
    for text, _ in TREES:
        tree = parse(text)
        assert parse(unparse(tree, pretty=pretty)) == tree, text


@given(text=st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
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


def test_the_canonical_tree_has_exactly_this_form() -> None:
    text = '+(&(count=4)(executable=$(BIN d)/x#"é"))(a!="b c" (d))'
    assert canonical_json(parse(text)) == (
        '{"bool": "+", "operands": ['
        '{"bool": "&", "operands": ['
        '{"attr": "count", "op": "=", "values": ["4"]}, '
        '{"attr": "executable", "op": "=", "values": ['
        '{"cat": [{"var": "BIN", "default": "d"}, {"cat": ["/x", "\\u00e9"]}]}]}]}, '
        '{"attr": "a", "op": "!=", "values": ["b c", {"seq": ["d"]}]}]}'
    )


def test_pretty_text_has_one_clause_on_a_line() -> None:
    text = "+(&(label=left)(count=4)(executable=$(BIN d)/x))(|(&(a=b)))(deadline='+90')"
    assert unparse(parse(text), pretty=True) == (
        "+(&(label=left)\n"
        "   (count=4)\n"
        "   (executable=$(BIN d)/x))\n"
        " (|(&(a=b)))\n"
        ' (deadline="+90")\n'
    )


# Definitions from outside


def test_a_definition_of_the_text_hides_one_from_outside() -> None:
    tree = parse("+(&(rsl_substitution=(X $(X)/inner))(a=$(X)))(b=$(X))")
    assert unparse(evaluate(tree, {"X": "outer"})) == (
        "+(&(rsl_substitution=(X outer/inner))(a=outer/inner))(b=outer)"
    )


def test_a_single_relation_opens_no_scope_so_outside_definitions_win_there() -> None:
    tree = parse("rsl_substitution=(X inner)(Y $(X))")
    assert unparse(evaluate(tree, {"X": "outer"})) == "rsl_substitution=(X inner)(Y outer)"


def test_evaluation_leaves_the_tree_as_it_was() -> None:
    tree = parse("&(rsl_substitution=(A a))(b=$(A)#c)")
    before = canonical_json(tree)
    evaluate(tree)
    assert canonical_json(tree) == before


@pytest.mark.parametrize("definitions", [{"X": "a\0b"}, {"a\0": "b"}, {"X": "\udc80"}])
def test_a_definition_with_an_impossible_character_is_refused(definitions: dict[str, str]) -> None:
    with pytest.raises(SpecError):
        evaluate(parse("a=b"), definitions)


def test_definitions_that_double_one_another_do_not_fill_the_memory() -> None:
    doubling = "".join(f"(A{n} $(A{n - 1})$(A{n - 1}))" for n in range(1, 60))
    with pytest.raises(SpecError, match="limit"):
        evaluate(parse(f"&(rsl_substitution=(A0 xxxxxxxx){doubling})(a=b)"))
