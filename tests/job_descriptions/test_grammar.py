"""The grammar, rule by rule: what parses, to which tree, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koala.errors import SpecError
from koala.job_descriptions import canonical_json, evaluate, parse, unparse
from tests.job_descriptions.examples import EVALUATED, REFUSED, TREES, UNEVALUABLE


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
