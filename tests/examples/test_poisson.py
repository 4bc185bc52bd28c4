"""The Poisson application, run for real over several processes."""

import signal
from pathlib import Path

import pytest

from tests.examples.programs import POISSON
from tests.examples.stage import Stage

pytestmark = [pytest.mark.live]


def test_three_strips_of_two_processes_solve_the_equation(tmp_path: Path) -> None:
    mesh = tmp_path / "poisson.dat"
    mesh.write_bytes(b"x" * 1000)
    with Stage(tmp_path, [2, 2, 2]) as stage:
        stage.start("poisson/poisson.py", "--grid", "31", KOALA_INPUT=str(mesh))
        ended = stage.finish()
        result = stage.result()
    assert [(process.status, process.errors) for process in ended] == [(0, "")] * 6
    assert result["ok"] is True
    assert result["ranks"] == 6
    assert result["sites"] == ["vu", "delft", "leiden"]
    assert result["input_bytes"] == 1000
    # the scheme's own error, pi^2 h^2 / 12: neither more nor suspiciously less
    assert result["max_error"] == pytest.approx(8.03e-4, rel=0.02)
    assert result["max_error"] < result["error_bound"] == pytest.approx(1.982e-3, rel=1e-3)


def test_the_numbers_do_not_depend_on_how_the_square_is_cut(tmp_path: Path) -> None:
    """Uneven strips too: the side of one rectangle then belongs to several neighbours."""
    results = []
    for number, processes in enumerate([[1], [3, 1]]):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Stage(folder, processes) as stage:
            stage.start("poisson/poisson.py", "--grid", "14", "--repeat", "2")
            assert [process.status for process in stage.finish()] == [0] * sum(processes)
            result = stage.result()
            results.append([result[key] for key in ("iterations", "residual", "max_error")])
    assert results[0] == results[1]


def test_a_wrong_border_cannot_pass(tmp_path: Path) -> None:
    with Stage(tmp_path, [1, 1]) as stage:
        stage.start("poisson/poisson.py", "--grid", "15", "--border", "0.02")
        ended = stage.finish()
        result = stage.result()
    assert [process.status for process in ended] == [1, 1]
    assert all("exceeds the bound" in process.errors for process in ended)
    assert result["ok"] is False


def test_a_lost_neighbour_ends_the_others_with_its_name(tmp_path: Path) -> None:
    with Stage(tmp_path, [1, 1, 1]) as stage:
        stage.start("poisson/poisson.py", "--repeat", "100000")
        stage.has_met(1)
        stage.running[1].kill()
        ended = stage.finish()
        assert not stage.has_result()
    assert [process.status for process in ended] == [1, -signal.SIGKILL, 1]
    assert any("lost rank 1 (component 1 'c1' at delft)" in process.errors for process in ended)
    assert all("Traceback" not in process.errors for process in ended)


@pytest.mark.parametrize(
    ("height", "width", "processes", "expected"),
    [(96, 96, 4, (2, 2)), (96, 32, 4, (4, 1)), (96, 48, 8, (4, 2)), (96, 96, 7, (1, 7))],
)
def test_the_pattern_has_the_shortest_sides(
    height: int, width: int, processes: int, expected: tuple[int, int]
) -> None:
    found = POISSON.pattern(height=height, width=width, processes=processes)
    assert sorted(found) == sorted(expected)
    assert height / found[0] + width / found[1] == height / expected[0] + width / expected[1]
