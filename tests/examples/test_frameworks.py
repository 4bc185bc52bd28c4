"""Four frameworks over the sites of `koala up`, as docs/guides/frameworks.md shows it.

`make test-frameworks` installs each framework in an environment of its own, and runs these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.cli.grids import Up, marked_with, up
from tests.documents.blocks import blocks, missing, steps
from tests.examples.stage import EXAMPLES
from tests.tidy.sources import ROOT

PAGE = ROOT / "docs" / "guides" / "frameworks.md"
ENVIRONMENTS = ROOT / "build" / "frameworks"
COMPONENTS = {"dask": "scheduler", "torchrun": "0", "flower": "superlink", "muscle3": "sea"}
"""The component of each example that prints the result."""
REQUIREMENTS = {"dask": "dask", "torchrun": "torch", "flower": "flower", "muscle3": "muscle3"}
"""The environment of each example."""


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("g")
    with up(folder, None) as running:
        yield running
    assert marked_with(str(folder)) == [], "a framework has left something"


@pytest.mark.frameworks
@pytest.mark.live
@pytest.mark.parametrize("name", COMPONENTS)
def test_a_framework_runs_over_several_sites(name: str, grid: Up) -> None:
    python = ENVIRONMENTS / REQUIREMENTS[name] / "bin" / "python"
    description = EXAMPLES / "frameworks" / f"{name}.rsl"
    run = grid.koala("submit", "--wait", "-D", f"PYTHON={python}", str(description))
    job = run.stdout.strip()
    assert run.returncode == 0, run.stderr + grid.koala("logs", job).stdout
    words = ("--stream", "stdout", "-c", COMPONENTS[name], "-p", "0")
    said = grid.koala("logs", *words, job).stdout
    shown = _shown(name)
    assert len(shown) >= 2
    assert missing(shown, said) == [], said
    check(name, said)


def check(name: str, said: str) -> None:
    """Check what the numbers say: the page's lines are compared by their form only."""
    checks = {
        "dask": _check_dask,
        "torchrun": _check_torchrun,
        "flower": _check_flower,
        "muscle3": _check_muscle3,
    }
    checks[name](said)


def _check_dask(said: str) -> None:
    shares = re.findall(r"^(\w+) ran (\d+) of 40 tasks$", said, re.MULTILINE)
    assert len({site for site, _ in shares}) == 2, said
    assert sum(int(count) for _, count in shares) == 40, said


def _check_torchrun(said: str) -> None:
    sites = re.search(r"^4 processes at (.*)$", said, re.MULTILINE)
    losses = re.search(r"^loss (\S+) at the first step, (\S+) at the last one$", said, re.MULTILINE)
    assert sites, said
    assert len(set(sites[1].split(", "))) == 2, said
    assert losses, said
    assert float(losses[2]) < 0.01 < float(losses[1]), said


def _check_flower(said: str) -> None:
    losses = re.search(
        r"^loss (\S+) in the first round, (\S+) in the last one$", said, re.MULTILINE
    )
    assert "2 SuperNodes at delft, leiden" in said.splitlines(), said
    assert losses, said
    assert float(losses[2]) < 0.01 < float(losses[1]), said


def _check_muscle3(said: str) -> None:
    sites = re.search(r"^40 steps of the sea at (\w+) and the air at (\w+)$", said, re.MULTILINE)
    ends = re.search(r"^sea (\S+), air (\S+), wanted 8.000$", said, re.MULTILINE)
    assert sites, said
    assert sites[1] != sites[2], said
    assert ends, said
    assert abs(float(ends[1]) - 8) < 0.01 > abs(float(ends[2]) - 8), said


def _shown(name: str) -> list[str]:
    """List the lines that the page shows as what an example prints."""
    (block,) = [block for block in blocks(PAGE) if block.language == "console"]
    command = f"-c {COMPONENTS[name]} "
    (step,) = [step for step in steps(block) if command in step.commands]
    return step.shown


def test_no_connection_of_flower_is_plain_text() -> None:
    """Flower's programs refuse to run without TLS unless a command says `--insecure`."""
    program = EXAMPLES / "frameworks" / "flower_parts.py"
    assert "--insecure" not in program.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMPONENTS)
def test_the_page_shows_the_description(name: str) -> None:
    description = (EXAMPLES / "frameworks" / f"{name}.rsl").read_text(encoding="utf-8")
    assert description in [block.text for block in blocks(PAGE) if block.language == "text"]
