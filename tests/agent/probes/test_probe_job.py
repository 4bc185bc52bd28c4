"""The probe job of a site whose starters dial nobody."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from koala.errors import LocalManagerError
from koala_agent.config import parse_config
from koala_agent.probes.probe_job import run_probe

CONFIG = """\
[agent]
plain = true
site = "atlas"
daemon = "127.0.0.1:1"
state_dir = "{folder}/state"
[accounts]
mode = "anyone"
[site]
processors = 4
[lrm]
kind = "slurm"
environment = {{ PATH = "{folder}" }}
[starter]
line = "files"
mailbox = "{folder}/mail"
"""


async def test_a_submission_that_fails_is_told_in_words(tmp_path: Path) -> None:
    text = CONFIG.format(folder=tmp_path)
    config = parse_config(text, source="agent.toml", folder=tmp_path)
    with pytest.raises(LocalManagerError, match="sbatch"):
        await run_probe(config)
    assert os.listdir(tmp_path / "mail" / "atlas" / "up") == []  # noqa: PTH208 - in a coroutine
