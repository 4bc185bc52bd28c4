"""Batch scripts on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import koala_here


def test_batch_scripts_are_shown_as_the_job_that_they_make(tmp_path: Path) -> None:
    script = tmp_path / "train.sbatch"
    script.write_text("#!/bin/sh\n#SBATCH -n 2 --mail-type=END\nhostname\n", encoding="utf-8")
    words = [f"--component=alpha:{script}", f"--component={script}", "--show-rsl"]
    done = koala_here("submit", *words)
    assert done.returncode == 0
    assert "(resourceManagerContact=alpha)" in done.stdout
    assert done.stdout.count("(count=2)") == 2
    assert "line 2, column 14: --mail-type is left out" in done.stderr
    alone = koala_here("submit", str(script), "--show-rsl")
    assert alone.returncode == 0
    assert "(count=2)" in alone.stdout
    assert "a batch script for Slurm: at any site" in alone.stderr
    twice = koala_here("submit", *words, "job.rsl")
    assert (twice.returncode, twice.stdout) == (2, "")
    assert "'job.rsl' and --component cannot be combined" in twice.stderr
    nothing = koala_here("submit")
    assert nothing.returncode == 2
    assert "nothing to submit" in nothing.stderr


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("thing", b"#!/bin/sh\ndate\n", "a script without directives"),
        ("train.py", b"import math\n", "a script without directives"),
        ("thing", b"\x7fELF\x02\x90", "a program"),
    ],
)
def test_a_program_as_a_description_is_named_with_the_right_command(
    tmp_path: Path, name: str, content: bytes, kind: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    run = koala_here("submit", str(path))
    assert run.returncode == 2
    assert f"is {kind} " in run.stderr
    assert "koala run -- COMMAND" in run.stderr
