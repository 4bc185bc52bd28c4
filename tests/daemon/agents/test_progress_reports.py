"""Reports of progress become an event when all components have told of a cycle."""

from __future__ import annotations

import pytest

from koala.common.protocol.messages import Progress
from koala.core.model.events import ProgressReported
from koala.core.model.values import ClaimId, SiteName
from koala.daemon.agents.progress_reports import CYCLES_MAX, ProgressGatherer
from tests.harness.builders import a_component, a_job, a_site
from tests.harness.script import Script


@pytest.fixture
def script() -> Script:
    return Script()


def begun(script: Script, **more: object) -> list[str]:
    script.tell(a_site("a", 4), a_site("b", 4))
    parts = [a_component(1, "a"), a_component(1, "b")]
    script.tell(a_job("j1", *parts, **{"progress": "sq", **more}))
    return script.running("j1")


def report(claim: str, cycle: int, work: float = 1.0) -> Progress:
    return Progress(claim=ClaimId(claim), cycle=cycle, work=work, is_told=False, can_pace=True)


def take(gathering: ProgressGatherer, script: Script, told: Progress) -> ProgressReported | None:
    site = SiteName("a" if told.claim.split("/")[2] == "0" else "b")
    return gathering.add(told, site, script.scheduler)


def test_the_last_report_of_a_cycle_completes_it(script: Script) -> None:
    one, other = begun(script)
    gathering = ProgressGatherer()
    assert take(gathering, script, report(one, 1)) is None
    assert take(gathering, script, report(one, 2)) is None
    event = take(gathering, script, report(other, 2, 0.5))
    assert event is not None
    assert (event.cycle, [member.work for member in event.members]) == (2, [1.0, 0.5])
    assert take(gathering, script, report(other, 1)) is None  # older ones are history


def test_a_component_that_ended_is_not_waited_for(script: Script) -> None:
    one, other = begun(script)
    script.exits(one)
    event = take(ProgressGatherer(), script, report(other, 3))
    assert event is not None
    assert [member.component for member in event.members] == [1]


def test_what_is_never_completed_does_not_grow(script: Script) -> None:
    one, other = begun(script)
    gathering = ProgressGatherer()
    for cycle in range(1, 1000):
        assert take(gathering, script, report(one, cycle)) is None
    assert take(gathering, script, report(other, 999 - CYCLES_MAX)) is None
    assert take(gathering, script, report(other, 999)) is not None
