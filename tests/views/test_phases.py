"""The names of phases that people see are those of the core."""

from __future__ import annotations

from typing import get_args

from koala.cli.render.table import TONES
from koala.core.model import job
from koala.views.cells import STAGES
from koala.views.records.phases import PHASES, TERMINAL_PHASES


def test_every_phase_of_the_core_has_its_name_its_stage_and_its_colour() -> None:
    assert {*PHASES} == {phase.__name__ for phase in get_args(job.Phase)}
    assert TERMINAL_PHASES == job.TERMINAL_PHASES
    assert {*PHASES} <= STAGES.keys()
    assert {*PHASES} <= TONES.keys()
