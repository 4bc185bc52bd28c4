"""`--with KEY=VALUE`: what is allowed, and clear words for what is not (promise 10)."""

from __future__ import annotations

from dataclasses import fields

import pytest

from koala.core.model.parameters import NAMES, SYMBOLS, Parameters
from koala.errors import ConfigError
from koala.policies import BUILT_IN
from koala.policies.changes import parse_changes


def test_policies_symbols_and_parameters_are_taken_by_their_types() -> None:
    found = parse_changes(
        [
            "placement=WF",
            "claiming.L=0.5",
            "queueing.S=3",
            "count_placed=true",
            "hold_budget_user_s=inf",
            "preempt=none",
        ]
    )
    assert found.policies == {"placement": "WF"}
    assert found.parameters == {
        "claim_fraction": 0.5,
        "high_scans_per_low": 3,
        "count_placed": True,
        "hold_budget_user_s": float("inf"),
        "preempt": "none",
    }


def test_every_symbol_stands_for_a_parameter_and_every_slot_for_no_parameter() -> None:
    assert set(SYMBOLS.values()) <= {field.name for field in fields(Parameters)}
    assert not set(BUILT_IN) & set(NAMES)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("placement", "expected KEY=VALUE, as in placement=WF"),
        ("placement=", "expected KEY=VALUE"),
        ("placment=WF", "did you mean placement?"),
        ("claiming.Q=1", "claiming.L, claiming.T"),
        ("nothing=1", "expected a policy: placement, claiming, "),
        ("placement=XF", "'XF' (expected one of CF, WF"),
        ("claiming.L=much", "expected a number, or"),
        ("claiming.L=nan", "claim_fraction = nan (expected values from 0.0 to 1.0"),
        ("claiming.L=2", "claim_fraction = 2.0 (expected values from 0.0 to 1.0"),
        ("claiming.L=0.1", "claim_fraction_min = 0.25 (expected at most claim_fraction = 0.1"),
        ("queueing.S=1.5", "expected a whole number)"),
        ("count_placed=perhaps", "expected true or false)"),
        ("preempt=all", "expected one of complete, component, none"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(word: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_changes([word])
    assert said in str(error.value)
    assert str(error.value).startswith("--with")


def test_one_parameter_has_one_value() -> None:
    with pytest.raises(ConfigError, match=r"claim_fraction is 0\.5 already"):
        parse_changes(["claiming.L=0.5", "claim_fraction=0.75"])
