"""The laboratory gives what the commands give, from Python, with functions of the session."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from math import isnan
from pathlib import Path
from typing import Any

import numpy
import pytest

from koala import lab
from koala.core.model.grid import Assignment, GridView, Placement, PlacementRequest, Unplaceable
from koala.core.model.values import SiteName
from koala.errors import ConfigError
from koala.lab import sweeps
from koala.lab.sim.metrics import JobRecord
from tests.cli.command import koala_here

GRID = lab.grid({"a": 8, "b": 8})
"""Two sites without local users."""
PAIR = (
    lab.Job(at=0, processors=6, run_s=100, name="first"),
    lab.Job(at=1, processors=(6, 2), run_s=50, priority="high", name="second"),
    lab.Job(at=2, processors=12, run_s=10),
)
OWN = lab.Experiment(grid=GRID, workload=lab.Jobs(PAIR))


def test_own_jobs_run_on_a_grid_as_hand_calculated() -> None:
    found = OWN.run()
    rows = {row["job"]: row for row in found.jobs}
    assert [rows[name]["processors"] for name in ("first", "second", "3")] == [6, 8, 12]
    assert rows["second"]["started_at"] == pytest.approx(1, abs=0.5)
    assert rows["3"]["started_at"] == pytest.approx(100, abs=1), "6 + 6 when the first has ended"
    assert rows["3"]["components"] == 2
    assert (found["jobs"], found["finished"], found["split_jobs"]) == (3, 3, 2)
    assert found["wait.max"] == pytest.approx(98, abs=1)
    assert max(found.jobs.column("waiting_s")) == found["wait.max"]
    assert rows["first"]["running_s"] == pytest.approx(100, abs=0.5)


def last_site(request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
    """Place every component on the last site."""
    idle = view.idle(request.user)
    name = list(idle)[-1]
    if sum(part.processors for part in request.parts) > idle[name]:
        return Unplaceable(component=request.parts[0].component, reason="no room")
    return Placement(
        assignments=tuple(Assignment(component=p.component, site=name) for p in request.parts)
    )


def test_a_function_of_the_session_places_and_measures() -> None:
    offset, placed = 1000, last_site

    def own_metric(jobs: Sequence[JobRecord]) -> float:
        return offset + len(jobs)

    base = lab.Experiment(
        grid=GRID, workload=lab.Jobs(PAIR[:2]), metrics={"own": own_metric}, split="fill"
    )
    found = lab.sweep(
        base,
        over={"placement": {"mine": placed, "WF": "WF"}},
        reps=1,
        workers=2,
    )
    rows = found.rows()
    assert rows.column("placement") == ["mine", "WF"]
    assert rows.column("own") == [1002, 1002]
    mine, worst_fit = (rows.where(placement=name)[0]["wait.max"] for name in ("mine", "WF"))
    assert mine > 90 > worst_fit, "the second job waits for the first"
    assert found.made.stored == 0


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"until_s": "x"}, r"until_s = 'x' \(expected float, got str"),
        ({"split": True}, r"split = True \(expected"),
        ({"claim_fraction": "x"}, r"claim_fraction = 'x' \(expected float, got str"),
        ({"workload.jobs": "x"}, r"jobs = 'x' \(expected int, got str"),
        ({"workload.jobs": -1}, r"jobs = -1 \(expected 1 or more"),
        ({"faults.claim": "x"}, r"claim = 'x' \(expected"),
        ({"faults.outages": (("delft", 1.0),)}, r"outages = .* \(expected array of length 3"),
    ],
)
def test_values_of_a_wrong_type_are_refused_before_a_run(
    changes: dict[str, object], told: str
) -> None:
    base = lab.Experiment(
        grid=lab.grid({"delft": 4}), workload=lab.Synthetic(jobs=2), faults=lab.Faults()
    )
    with pytest.raises(ConfigError, match=told):
        base.changed(**changes)
    assert base.changed(split=4, until_s=9, claim_fraction=1).split == 4


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: OWN.changed(grid={"a": 8}), r"grid = .* is dict"),
        (lambda: OWN.changed(workload="x.swf"), r"workload = 'x.swf' \(expected lab.Log, lab.Syn"),
        (lambda: OWN.changed(faults={"claim": 0.1}), "expected Faults"),
        (lambda: OWN.changed(faults=lab.Faults(claim={"z": 0.1})), "faults of z: sites are a, b"),
        (lambda: OWN.changed(faults=lab.Faults(outages=(("a", 2, 1),))), "outage of a from 2 to 1"),
        (lambda: OWN.changed(until_s=-1), r"until_s = -1 \(expected more than 0"),
        (lambda: lab.Site("a", 8, users="x"), "expected LocalUsers or Log"),  # type: ignore[arg-type]
        (lambda: lab.Site("a", 8, users=lab.LocalUsers(load=-0.1)), "local users with load -0.1"),
        (lambda: lab.Grid(sites=(lab.Site("a", 8),) * 2), "site a is twice in one grid"),
        (lambda: lab.grid([8, 8]), r"sites = .* \(expected processors by name"),  # type: ignore[arg-type]
        (lambda: lab.Replay(log="x.swf"), "expected Log"),  # type: ignore[arg-type]
        (lambda: lab.Log("absent.swf"), "absent.swf does not exist"),
        (lambda: lab.Log(__file__, begin_s=5, end_s=5), r"begin_s = 5, end_s = 5 \(expected"),
        (lambda: lab.Log(__file__, part_s=0), r"part_s = 0 \(expected more than 0"),
        (lambda: lab.Synthetic(model="das", sizes=(4, 2)), r"--sizes 4:2 \(expected"),
        (lambda: lab.Synthetic(utilization=-1), r"utilization = -1 \(expected more than 0"),
        (lambda: lab.Job(at=0, processors=1.5, run_s=1), r"processors = 1.5 \(expected int"),  # type: ignore[arg-type]
        (
            lambda: lab.Job(at=0, processors=(1, 2), run_s=1, sites=("a",)),
            "expected a site for each",
        ),
        (lambda: lab.Site("a", 8, users=lab.Log(__file__, jobs=2)), "expected a whole log, or"),
        (lambda: lab.Job(at="now", processors=1, run_s=1), r"at = 'now' \(expected float"),  # type: ignore[arg-type]
        (lambda: lab.sweep(OWN, workers=-1, store=False), r"workers = -1 \(expected 0 or more"),
        (
            lambda: OWN.changed(metrics={"x": lambda jobs: None}).run(),
            r"x returned None \(expected a number",
        ),
    ],
)
def test_wrong_pieces_of_an_experiment_are_named(make: Callable[[], object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make()


@pytest.mark.filterwarnings("ignore::koala.common.runtime.foreign.guards.ReplacedPolicyWarning")
def test_an_own_policy_with_an_invalid_answer_is_replaced_and_the_result_says_so() -> None:
    def to_a(request: PlacementRequest, view: GridView) -> Placement:
        return Placement(
            assignments=tuple(
                Assignment(component=part.component, site=SiteName("a")) for part in request.parts
            )
        )

    policies: tuple[tuple[str, Callable[..., Any], str], ...] = (
        ("placement", lambda request, view: None, "CF: answered NoneType (expected"),
        ("placement", to_a, "CF: component 0 at a does not fit"),
        ("queueing", lambda job: None, "the order of submission: the sort key None"),
    )
    for slot, policy, text in policies:
        (note,) = OWN.changed(**{slot: policy}).run().notes
        assert note.partition(": replaced by ")[2].startswith(text)


def test_a_part_of_a_log_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    lines = ((one, 100 * one, -1, 10, 2, -1, -1, 2, 10, *[-1] * 9) for one in range(1, 9))
    path.write_text("".join(f"{' '.join(map(str, line))}\n" for line in lines), encoding="ascii")

    def instants(seed: int = 1, **cut: float) -> list[tuple[str, float]]:
        log = lab.Log(path, **cut)  # type: ignore[arg-type]
        rows = OWN.changed(workload=log).run(seed).jobs
        return [(row["job"], row["submitted_at"]) for row in rows]

    assert instants(begin_s=200, end_s=500) == [("3", 0), ("4", 100), ("5", 200)]
    assert instants(begin_s=150, jobs=2) == [("3", 0), ("4", 100)]
    assert [instants(seed, part_s=250) for seed in (1, 2)] == [
        [("1", 0), ("2", 100), ("3", 200)],
        [("4", 0), ("5", 100)],
    ]
    with pytest.raises(ConfigError, match=r"no job that could be replayed from 1000 to 1250 s"):
        instants(5, part_s=250)
    with pytest.raises(ConfigError, match="a Replay has a whole log"):
        lab.Replay(log=lab.Log(path, jobs=2))
    rows = lab.Log(path).rows()
    assert (len(rows), rows[2]["submit_time"], rows[2]["job_number"]) == (8, 300, 3)
    identities = [lab.Log(path, **cut).identity() for cut in ({}, {"jobs": 2}, {"end_s": 9})]  # type: ignore[arg-type]
    assert len(set(map(str, identities))) == len(identities)


def test_numbers_of_numpy_are_numbers() -> None:
    base = lab.Experiment(grid=lab.grid({"delft": 4}), workload=lab.Synthetic(jobs=2))
    found = base.changed(**{"workload.jobs": numpy.int64(3), "until_s": numpy.float32(9)})
    assert found.until_s == 9
    row = {"at": numpy.int64(1), "processors": numpy.int64(4), "run_s": numpy.float64(5)}
    job = lab.Job(**row)  # type: ignore[arg-type]  # as of a row of pandas
    assert job.grid_job(1) == lab.Job(at=1, processors=4, run_s=5).grid_job(1)
    assert type(job.grid_job(1)[2]) is int
    with pytest.raises(ConfigError, match="expected int"):
        lab.Job(**row | {"processors": numpy.float64(4)})  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::koala.common.runtime.foreign.guards.ReplacedPolicyWarning")
def test_an_error_of_an_own_policy_names_the_policy_and_the_line() -> None:
    def broken(_request: PlacementRequest, view: GridView) -> Placement:
        return view.nothing  # type: ignore[attr-defined,no-any-return]

    def disordered(_job: object) -> float:
        raise LookupError("no\nkey")

    line = r"in test_laboratory\.py, line \d+"
    for slot, policy, wrong in (
        ("placement", broken, "CF: AttributeError: .*'nothing'"),
        ("queueing", disordered, "the order of submission: LookupError: no key"),
    ):
        (note,) = OWN.changed(**{slot: policy}).run().notes
        assert re.fullmatch(f"{slot} = {policy.__name__}: replaced by {wrong}.*{line}", note)


def test_a_result_says_why_its_means_say_little() -> None:
    wide = lab.Job(at=0, processors=17, run_s=10)
    assert OWN.changed(workload=lab.Jobs([wide])).run().notes == (
        "no job could run: 1 larger than the grid",
        "1 job left out: 1 needs 17 processors; sites have a 8, b 8",
    )
    for run_s, is_noted in ((30, True), (20, False)):
        jobs = [lab.Job(at=20.0 * n, processors=12, run_s=run_s) for n in range(101)]
        notes = OWN.changed(workload=lab.Jobs(jobs)).run().notes
        told = "overload: while jobs are submitted, they ask for 1.1 times what the grid has"
        assert [note.startswith(told) for note in notes] == [True] * is_noted


@pytest.mark.parametrize(
    ("jobs", "run_s", "is_saturated"),
    [(1000, 21.0, True), (1000, 19.0, False), (999, 21.0, False)],
)
def test_an_experiment_is_saturated_if_ever_more_of_a_thousand_jobs_wait(
    *, jobs: int, run_s: float, is_saturated: bool
) -> None:
    """Two of these jobs do not fit at a time, so the grid is full with 12 of its 16 processors."""
    stream = lab.Jobs([lab.Job(at=20.0 * n, processors=12, run_s=run_s) for n in range(jobs)])
    found = OWN.changed(workload=stream).run()
    assert found.is_saturated == is_saturated
    assert found.notes == (), "they ask for less than the grid has"


def test_a_log_that_has_changed_has_another_name_in_the_store(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.touch()
    log = lab.Log(path)
    names = []
    for run_s in (1, 20):
        path.write_text(f"1 0 0 {run_s} 1 -1 -1 1 {run_s} -1 1 1 1 -1 1 -1 -1 -1\n")
        names.append(log.content)
    assert names[0] != names[1]


def test_a_parameter_and_a_field_of_a_field_can_be_changed() -> None:
    base = lab.Experiment(grid=GRID, workload=lab.Synthetic(jobs=5))
    found = base.changed(**{"workload.jobs": 7, "claim_fraction": 0.5, "split": "fill"})
    assert found.run().metrics["jobs"] == 7
    assert found.parameters == {"claim_fraction": 0.5}


def test_paired_differences_are_those_of_equal_seeds() -> None:
    model = lab.Model("multiqueue", jobs=400, warmup=50)
    over: dict[str, list[Any]] = {"policy": ["LS-DO", "GP"], "utilization": [0.3, 0.6]}
    found = lab.sweep(model, over, reps=4, workers=1, store=False)
    rows = found.rows()
    assert len(rows) == 16
    (row,) = found.compare("response.all", over="policy", baseline="LS-DO").where(utilization=0.6)
    ones, others = (
        rows.where(policy=name, utilization=0.6).column("response.all") for name in ("GP", "LS-DO")
    )
    differences = [one - other for one, other in zip(ones, others, strict=True)]
    assert row["difference"] == pytest.approx(sum(differences) / 4)
    assert row["low"] < row["difference"] < row["high"]
    assert row["replications"] == 4
    with pytest.raises(KeyError, match="values of policy are LS-DO, GP"):
        found.compare("response.all", over="policy", baseline="GS")


def test_a_sweep_is_stored_and_repeated_without_a_run(tmp_path: Path) -> None:
    def run(workers: int) -> lab.Sweep:
        over = {"placement": ["WF", "CF"]}
        return lab.sweep(OWN, over, reps=2, workers=workers, store=tmp_path)

    first, second = run(1), run(2)
    assert (first.made.stored, second.made.stored) == (0, 4)
    assert first.rows() == second.rows()


@pytest.mark.parametrize("name", ["koala", "multiqueue", "deadlines", "sq", "hints", "malleable"])
def test_a_model_has_the_numbers_of_its_command(name: str) -> None:
    options: dict[str, dict[str, Any]] = {
        "koala": {"jobs": 5, "local_load": 0.1, "bandwidth": 200, "run": "30:60"},
        "multiqueue": {"jobs": 500, "warmup": 50, "utilization": 0.4, "policy": "GS"},
        "deadlines": {"time": 20000, "warmup": 1000, "policy": "LP"},
        "sq": {"tasks": 4, "machines": 5},
        "hints": {"jobs": 20, "policy": "Service"},
        "malleable": {"jobs": 6, "interval": 15, "manager": "EGS"},
    }
    given = options[name]
    words = [
        word for key, one in given.items() for word in (f"--{key.replace('_', '-')}", str(one))
    ]
    done = koala_here("simulate", name, *words, "--reps", "1", "--seed", "3", "--json")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    found = lab.Model(name, **given).run(3)
    shown = {
        "koala": ("makespan_s", printed.get("makespan_s", {})),
        "multiqueue": ("response.all", printed.get("response", {}).get("all", {})),
        "deadlines": ("success_rate", printed.get("success_rate", {})),
        "sq": ("skew_finish", printed.get("skew_finish", {})),
        "hints": ("response.all", printed.get("response", {}).get("all", {})),
        "malleable": ("response.all", printed.get("response", {}).get("all", {})),
    }
    metric, document = shown[name]
    assert found[metric] == pytest.approx(document["mean"], rel=1e-12)
    assert len(found.jobs) > 0


def test_rows_are_shown_and_give_their_columns() -> None:
    rows = OWN.run().jobs
    assert list(rows.to_dict()) == list(rows.columns)
    assert sum(rows.to_dict()["processors"]) == 26
    assert "first" in repr(rows)
    assert "<td>first</td>" in rows._repr_html_()


@pytest.mark.long
def test_rows_become_tables_of_pandas_and_polars() -> None:
    import polars

    rows = OWN.run().jobs
    frame = rows.to_pandas()
    assert list(frame.columns) == list(rows.columns)
    assert frame["processors"].sum() == 26
    assert polars.DataFrame(rows.to_dict(), strict=False)["processors"].sum() == 26
    assert isnan(lab.Rows([{"a": float("nan")}]).to_pandas()["a"][0])


def test_pictures_are_drawn_by_one_call(tmp_path: Path) -> None:
    found = lab.sweep(OWN, over={"placement": ["WF", "CF"]}, reps=2, store=False, workers=1)
    for name in ("one.svg", "two.svg"):
        found.plot("wait.mean", title="Waits").save(tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert "Waits" in (tmp_path / "one.svg").read_text()
    picture = OWN.run().plot("ended_at")
    assert picture._repr_png_().startswith(b"\x89PNG")


@pytest.mark.long  # pyarrow is installed for long tests only
def test_rows_are_an_arrow_table() -> None:
    rows = lab.Rows([{"a": 1, "b": "x", "c": (1, 2)}, {"a": 2.5, "b": None, "c": ()}, {"b": "y"}])
    found = rows.to_arrow()
    assert found.column_names == ["a", "b", "c"]
    assert found.to_pydict() == {
        "a": [1.0, 2.5, None],
        "b": ["x", None, "y"],
        "c": [[1, 2], [], None],
    }
    mixed = lab.Rows([{"label": "mine"}, {"label": 0.5}]).to_arrow()
    assert mixed.to_pydict() == {"label": ["mine", "0.5"]}


def test_models_and_replays_take_functions_of_the_session(tmp_path: Path) -> None:
    def place(request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
        return last_site(request, view)

    koala_model = lab.Model("koala", jobs=2, local_load=0.0)

    def longest_first(job: Any) -> Any:
        return (-job.estimate_s,)

    over = {"placement": {"mine": place, "WF": "WF"}}
    found = lab.sweep(koala_model, over=over, reps=1, workers=1)
    assert found.rows().column("placement") == ["mine", "WF"]
    points = sweeps.points_of(koala_model, over)
    ids = sweeps.work_of(points, [1]).names
    assert [one is None for one in ids] == [True, False], "functions of the session are not stored"
    log = tmp_path / "log.swf"
    log.write_text(
        "1 0 -1 100 4 -1 -1 4 100 -1 1 1 -1 -1 -1 -1 -1 -1\n"
        "2 1 -1 10 4 -1 -1 4 10 -1 1 1 -1 -1 -1 -1 -1 -1\n"
        "3 2 -1 50 4 -1 -1 4 50 -1 1 1 -1 -1 -1 -1 -1 -1\n"
    )
    own = lab.Replay(log=lab.Log(log), policy=longest_first, processors=4)
    starts = {row["job"]: row["start"] for row in own.run().jobs}
    assert starts == {1: 0, 3: 100, 2: 150}
    policies = {"policy": {"mine": longest_first, "fcfs": "fcfs"}}
    again = lab.sweep(own, over=policies, reps=1, workers=1)
    assert again.rows().column("wait.mean") == [pytest.approx(247 / 3), pytest.approx(207 / 3)]
    assert again.made.stored == 0
