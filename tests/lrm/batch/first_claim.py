"""A claim and an answer of a batch command, for tests of dialects."""

from __future__ import annotations

from pathlib import Path

from koala_agent.lrm.local_manager import Placeholder
from koala_agent.transport.interface import Answer

FIRST = Placeholder(
    claim="j1/1/0/1",
    processors=4,
    time_limit_s=90.5,
    argv=("python3", "starter.py"),
    directory=Path("/scratch/it's"),
)
NAME = "koala-ab-j1.1.0.1"


def said(out: str = "", *, status: int = 0, err: str = "") -> Answer:
    return Answer(status=status, out=out, err=err)
