"""Reports about claims leave a site only after what they tell is committed."""

from __future__ import annotations

from koala_agent.claims.committed import CommittedClaims
from tests.agent.site import a_hold


def test_figures_include_all_asks_before_the_first_that_is_open() -> None:
    committed = CommittedClaims((), number=lambda _claim: "")
    assert committed.asked_through == 0
    for number in (3, 4, 5):
        committed.note_ask(a_hold(f"j1/1/0/{number}", ask_number=number), is_known=False)
    assert committed.asked_through == 2
    committed.note_submitted(a_hold("j1/1/0/3").claim)
    assert committed.asked_through == 3


def test_an_ask_without_a_number_is_before_all_others() -> None:
    """No daemon of ours asks so; one that did ended the agent by what it then had to say."""
    committed = CommittedClaims((), number=lambda _claim: "")
    committed.note_ask(a_hold(ask_number=0), is_known=False)
    assert committed.asked_through == 0
