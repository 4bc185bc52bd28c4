"""Finished runs come back exactly, for the code and setting that made them and for no other."""

import json
from dataclasses import dataclass
from math import inf, isnan, nan
from pathlib import Path

import pytest

from koala.errors import ConfigError
from koala.lab.sim.campaign.code import own_code
from koala.lab.sim.campaign.execution import Processes, StoreChoice
from koala.lab.sim.campaign.identity import canonical, digest, run_id
from koala.lab.sim.campaign.records import FinishedRun, as_plain, from_plain
from koala.lab.sim.campaign.store import Store
from koala.lab.sim.campaign.work import Work
from koala.lab.sim.replication import Progress
from koala.lab.sim.runs import Outcome

KEY = digest("a run")


@dataclass(frozen=True, slots=True)
class Load:
    """A setting of the tests."""

    load: float
    policy: str = "LS"


def made(**values: float) -> FinishedRun:
    return FinishedRun(outcome=Outcome(values=values, notes=("ü\n",)), cpu_s=0.5)


def test_an_outcome_is_read_as_it_was_written() -> None:
    outcome = Outcome(values={"a": 0.1 + 0.2, "b": inf, "c": -inf, "n": 3}, is_saturated=True)
    assert from_plain(json.loads(json.dumps(as_plain(outcome), allow_nan=False))) == outcome
    assert isnan(from_plain(as_plain(Outcome(values={"a": nan}))).values["a"])


def test_a_stored_run_is_found_by_another_process_and_not_for_other_code(tmp_path: Path) -> None:
    store = Store(tmp_path, "a" * 64)
    store.put(KEY, made(wait=1.5))
    store.close()
    found = Store(tmp_path, "a" * 64).get(KEY)
    assert found is not None
    assert (found.outcome, found.is_stored) == (made(wait=1.5).outcome, True)
    assert Store(tmp_path, "b" * 64).get(KEY) is None


@pytest.mark.parametrize("at", [0.0, 0.1, 0.5, 0.8, 0.99])
def test_a_damaged_or_cut_line_is_missing_and_hides_no_other(tmp_path: Path, at: float) -> None:
    store = Store(tmp_path, "a" * 64)
    store.put(KEY, made(wait=1.5))
    store.put(digest("other"), made(wait=2.5))
    store.close()
    (path,) = store.folder.iterdir()
    first, second = path.read_bytes().splitlines(keepends=True)
    place = int(at * (len(first) - 1))
    spoilt = first[:place] + bytes([first[place] ^ 1]) + first[place + 1 :]
    for content in (spoilt + second, second + first[:place]):
        path.write_bytes(content)
        again = Store(tmp_path, "a" * 64)
        assert again.get(KEY) is None
        assert again.get(digest("other")) is not None


def test_names_of_runs_depend_on_setting_seed_and_length_alone() -> None:
    names = {
        run_id("p", setting, seed=seed, length=length)
        for setting in (Load(0.5), Load(0.6), Load(0.5, "GS"))
        for seed in (1, 2)
        for length in (10, 20)
    }
    assert len(names) == 12
    assert run_id("p", Load(0.5), seed=1, length=10) == run_id("p", Load(0.5), seed=1, length=10.0)


def test_a_function_of_the_session_has_no_name() -> None:
    assert canonical(digest) == "koala.lab.sim.campaign.identity:digest"
    with pytest.raises(ConfigError, match="has no name"):
        canonical(lambda one: one)


def test_own_policies_are_part_of_the_code_with_what_they_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_rates.py").write_text("RATE = 1\n")
    (tmp_path / "own_unused.py").write_text("RATE = 1\n")
    (tmp_path / "own_place.py").write_text("def place(request, view):\n    import own_rates\n")
    digests = []
    for name, text in (("own_place", "# x"), ("own_rates", "RATE = 2"), ("own_unused", "R = 2")):
        digests.append(own_code(["x", ["own_place:place", 3]]))
        path = tmp_path / f"{name}.py"
        path.write_text(f"{path.read_text()}{text}\n")
    digests.append(own_code(["x", ["own_place:place", 3]]))
    assert len(set(digests)) == 3
    assert digests[2] == digests[3], "a module that it does not import"
    assert own_code(["CF", "1:8", "koala.policies:named"]) == ""


def count_and_run(item: tuple[Path, int]) -> Outcome:
    """Leave a file for each time that it is called."""
    folder, number = item
    place = folder / f"{number}.{len(list(folder.glob(f'{number}.*')))}"
    place.touch()
    return Outcome(values={"number": number})


def test_an_interrupted_campaign_goes_on_and_a_repeated_one_makes_no_run(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    calls.mkdir()
    items = tuple((calls, number) for number in range(6))
    names = tuple(run_id("t", item, seed=1) for item in items)
    work = Work(run=count_and_run, code="c" * 64, items=items, names=names, own=("",) * 6)
    store = StoreChoice(folder=tmp_path / "store")

    def interrupt(done: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    def campaign(progress: Progress | None = None, workers: int = 1) -> tuple[int, int, bool]:
        found = work.execute(store, Processes(workers=workers), progress)
        numbers = [made.outcome.values["number"] for _, made in found.finished]
        assert numbers == [*range(len(numbers))]
        return len(numbers), found.stored, found.is_interrupted

    assert campaign(interrupt) == (3, 0, True)
    assert campaign(workers=2) == (6, 3, False)
    assert campaign() == (6, 6, False)
    assert sorted(path.name for path in calls.iterdir()) == [f"{n}.0" for n in range(6)]


def test_a_store_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"--store .*file: cannot be used: Not a directory"):
        StoreChoice(folder=tmp_path / "file").open("c" * 64)
    assert StoreChoice(is_used=False).open("c" * 64) is None


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("own_a", "from . import rates"),
        ("own_b", "from .rates import RATE"),
        ("own_c/deep", "from ..rates import RATE"),
    ],
)
def test_relative_imports_of_own_policies_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, words: str
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "place.py").write_text(f"{words}\n")
    digests = []
    for rate in (1, 2):
        (tmp_path / folder.split("/", maxsplit=1)[0] / "rates.py").write_text(f"RATE = {rate}\n")
        digests.append(own_code(f"{folder.replace('/', '.')}.place:place"))
    assert digests[0] != digests[1]
