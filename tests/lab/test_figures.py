"""Figures of the laboratory: what a reader needs to know is on them, and they draw the tables."""

from __future__ import annotations

from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from koala import lab
from koala.errors import ConfigError
from koala.lab.measures import measure_of


def crowd(seed: int) -> list[lab.Job]:
    """Make jobs that wait for one another."""
    return [
        lab.Job(at=20 * n, processors=(1, 6, 8)[n % 3], run_s=3_000 + 977 * seed * n % 6_000)
        for n in range(30)
    ]


BASE = lab.Experiment(grid=lab.grid({"a": 8, "b": 8}), workload=lab.Jobs(crowd))


@pytest.fixture(scope="module")
def found() -> lab.Sweep:
    """Sweep two orders over two lengths of the jobs."""
    over: dict[str, list[Any]] = {
        "queueing": ["koala", "sjf"],
        "parameters.claim_fraction": [0.5, 0.75],
    }
    return lab.sweep(BASE, over=over, reps=3, store=False, progress=False, workers=1)


def only(picture: Any) -> Any:  # artists of matplotlib have loose types
    (axes,) = picture.figure.axes
    return axes


def legend(picture: Any) -> tuple[str, list[str]]:
    (found,) = picture.figure.legends
    return found.get_title().get_text(), [one.get_text() for one in found.get_texts()]


def bars_of(axes: Any) -> list[tuple[float, float]]:
    """List the ends of the intervals that are drawn."""
    ends = []
    for one in axes.containers:
        if hasattr(one, "has_yerr"):
            for low, high in one.lines[2][0].get_segments():
                ends.append((low[1], high[1]))
    return ends


def test_means_have_names_units_a_legend_and_ticks_at_their_points(found: lab.Sweep) -> None:
    picture = found.plot("wait.mean", x="parameters.claim_fraction", by="queueing")
    axes = only(picture)
    assert axes.get_xlabel() == "claim fraction"
    assert axes.get_ylabel() == "mean wait (h)\n95 % intervals of 3 seeds"
    assert legend(picture) == ("queueing", ["koala", "sjf"])
    assert list(axes.get_xticks()) == [0.5, 0.75]
    rows = found.means("wait.mean")
    drawn = [
        line for line in axes.lines if line.get_linestyle() == "-" and len(line.get_xdata()) == 2
    ]
    heights = [float(y) * 3_600 for line in drawn for y in line.get_ydata()]
    assert heights == pytest.approx(rows.column("wait.mean"))
    assert [3_600 * (high - low) / 2 for low, high in bars_of(axes)] == pytest.approx(
        rows.column("wait.mean_ci95")
    )
    places = [float(x) for line in drawn for x in line.get_xdata()]
    assert len(set(places)) == 4, "no line hides another's intervals"


def test_bars_stand_side_by_side(found: lab.Sweep) -> None:
    axes = only(found.plot("wait.mean", x="queueing"))
    spans = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches)
    assert len(spans) == 4
    assert all(before[1] < after[0] for before, after in pairwise(spans))
    assert [one.get_text() for one in axes.get_xticklabels()] == ["koala", "sjf"]


def test_paired_differences_are_drawn_with_the_intervals_of_the_table(
    found: lab.Sweep, tmp_path: Path
) -> None:
    compared = found.compare("wait.mean", over="queueing", baseline="koala")
    picture = compared.plot()
    axes = only(picture)
    text = axes.get_ylabel()
    assert text.startswith("difference in mean wait (")
    assert text.endswith("to queueing koala, 95 % interval")
    divisor = measure_of("wait.mean").scaled(compared.column("difference")).divisor
    table = zip(compared.column("low"), compared.column("high"), strict=True)
    drawn = [divisor * end for end in chain.from_iterable(bars_of(axes))]
    assert drawn == pytest.approx([*chain.from_iterable(table)])
    picture.save(tmp_path / "differences.svg")
    assert "difference in mean wait" in (tmp_path / "differences.svg").read_text()


def test_own_axes_take_one_chart_and_keep_their_style(found: lab.Sweep) -> None:
    figure = Figure()
    left, right = figure.subplots(1, 2)
    compared = found.compare("wait.mean", over="queueing", baseline="koala")
    assert found.plot("wait.mean", label="my words", ax=left).figure is figure
    compared.plot(ax=right, title="Right")
    assert (left.get_ylabel().split("\n")[0], right.get_title()) == ("my words", "Right")
    both = {"koala": BASE.run(), "sjf": BASE.changed(queueing="sjf").run()}
    right.clear()
    lab.distributions(both, ax=right)
    assert [one.get_text() for one in right.get_legend().get_texts()] == ["koala", "sjf"]
    threes = lab.sweep(
        BASE,
        over={"queueing": ["koala"], "placement": ["WF"], "split": ["equal", "fill"]},
        reps=1, store=False, progress=False, workers=1,
    )  # fmt: skip
    with pytest.raises(ConfigError, match="ax: 2 charts"):
        threes.plot("wait.mean", x="queueing", by="placement", ax=left)


def test_distributions_have_a_line_for_each_class_and_end_at_the_share_that_started() -> None:
    result = BASE.changed(until_s=6_000.0).run()
    picture = result.plot(by="processors")
    axes = only(picture)
    assert legend(picture) == ("processors", ["1", "5–8"])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("wait", "share of the jobs")
    assert "1 min" in [one.get_text() for one in axes.get_xticklabels()]
    for line, sizes in zip(axes.lines, ((1,), (6, 8)), strict=True):
        waits = [row["waiting_s"] for row in result.jobs if row["processors"] in sizes]
        started = sum(wait is not None for wait in waits)
        assert float(line.get_ydata()[-1]) == pytest.approx(started / len(waits))
    charts = lab.distributions({"x": result, "y": result}, by="processors").figure.axes
    assert [one.get_title() for one in charts] == ["processors 1", "processors 5–8"]
    with pytest.raises(ConfigError, match="by = job: 30 values"):
        result.plot(by="job")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("wait.mean", "mean wait (s)"),
        ("response.p95", "95th percentile of response time (s)"),
        ("response.all", "response time"),  # of the multiple queues, in mean service times
        ("waiting_s.all", "wait (s)"),
        ("held_processor_s", "held processor time (processor-s)"),
        ("failures_percent.high", "failures, high (%)"),
        ("local_wait_mean", "mean local wait (s)"),
        ("utilization", "utilization"),
    ],
)
def test_measures_have_words_and_units(path: str, words: str) -> None:
    assert str(measure_of(path)) == words


def test_tables_in_latex_have_means_with_their_half_widths(found: lab.Sweep) -> None:
    text = found.means("wait.mean").latex()
    assert "queueing & claim fraction & replications & mean wait (s)" in text
    assert text.count(r"\pm") == 4
    assert lab.Rows([{"a_b": "50 % & more", "n": 2.5}]).latex("a_b", "n").splitlines()[2:5] == [
        r"a b & n \\",
        r"\midrule",
        r"50 \% \& more & $2.5$ \\",
    ]
