"""`koala convert` writes the same job in another form, and names every mistake of the source."""

from __future__ import annotations

from pathlib import Path

from koala.job_descriptions import read_job
from tests.cli.command import koala_here

RSL = b"+(priority=high)(&(site=$(S))(count=4)(executable=a)(arguments='a b'))(&(executable=b))"


def test_a_description_goes_through_all_forms_and_stays_the_same_job() -> None:
    text = RSL
    for form in ("yaml", "json", "rsl"):
        words = ["-D", "S=delft"] if text is RSL else []
        run = koala_here("convert", "-", "--to", form, *words, stdin=text)
        assert (run.returncode, run.stderr) == (0, "")
        text = run.stdout.encode()
    assert read_job(text).spec == read_job(RSL, {"S": "delft"}).spec


def test_mistakes_are_told_with_their_places_and_nothing_is_written() -> None:
    wrong = b"executable: a\nprocesors: 2\nmemory: 4X\n"
    run = koala_here("convert", "-", "--to", "rsl", stdin=wrong)
    assert (run.returncode, run.stdout) == (2, "")
    assert "standard input: line 2, column 1: unknown attribute 'procesors'" in run.stderr
    assert "did you mean processors?" in run.stderr
    assert "line 3, column 9: memory: found '4X'" in run.stderr


def test_submit_shows_a_yaml_description_as_rsl(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("executable: /bin/true\nprocessors: 2\n", encoding="utf-8")
    run = koala_here("submit", str(path), "--show-rsl")
    assert run.returncode == 0, run.stderr
    assert read_job(run.stdout).spec == read_job("&(executable=/bin/true)(count=2)").spec
    assert run.stdout.startswith("&(")
