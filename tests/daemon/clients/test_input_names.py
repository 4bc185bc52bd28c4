"""Input files as users name them: their own first, folders, and nobody else's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from koala.core.model.events import ReplicaAdded
from koala.core.model.job_spec import ComponentSpec, InputFile, InputMode, JobSpec
from koala.core.model.parameters import Parameters
from koala.core.model.values import FileName, SiteName, UserName
from koala.core.scheduler import Scheduler
from koala.daemon.clients.input_names import may_read, with_inputs
from koala.errors import RejectedError
from koala.policies import chosen
from tests.harness.builders import a_site

HELD = ("common", "both", "~ann/both", "~ann/runs/b.nc", "~ann/runs/a.nc", "~bob/own",
        "~bob/shared/map")  # fmt: skip


@pytest.fixture(scope="module")
def scheduler() -> Scheduler:
    scheduler = Scheduler(Parameters(), chosen())
    scheduler.handle(a_site("delft", 8), 1.0)
    for name in HELD:
        found = ReplicaAdded(file=FileName(name), site=SiteName("delft"), size_bytes=9)
        scheduler.handle(found, 1.0)
    return scheduler


def a_job(*names: str | InputFile, mode: InputMode = InputMode.WHOLE) -> JobSpec:
    files = tuple(
        InputFile(name=FileName(name)) if isinstance(name, str) else name for name in names
    )
    component = ComponentSpec(executable="/bin/true")
    spec = JobSpec(components=(component,), owner=UserName("ann"), input_mode=mode)
    return spec.with_inputs(files) if files else spec


def meant(scheduler: Scheduler, *names: str) -> list[str]:
    return [file.name for file in with_inputs(a_job(*names), scheduler).input_files]


def test_a_name_means_the_users_own_file_or_else_the_common_one(scheduler: Scheduler) -> None:
    assert meant(scheduler) == []
    assert meant(scheduler, "common") == ["common"]
    assert meant(scheduler, "both", "common") == ["~ann/both", "common"]
    assert meant(scheduler, "~ann/both") == ["~ann/both"]


def test_a_folder_means_all_its_files_in_order(scheduler: Scheduler) -> None:
    assert meant(scheduler, "runs/") == ["~ann/runs/a.nc", "~ann/runs/b.nc"]


def test_shared_files_of_others_can_be_read_and_no_other_ones(scheduler: Scheduler) -> None:
    assert meant(scheduler, "~bob/shared/map") == ["~bob/shared/map"]
    sized = InputFile(name=FileName("~bob/own"), size_bytes=9)
    for wanted in ("~bob/own", "~bob/", sized):
        with pytest.raises(RejectedError, match=r"inputFile '~bob/(own)?'"):
            with_inputs(a_job(wanted), scheduler)
    assert may_read("ann", "~bob/shared/map")
    assert not may_read("ann", "~annette/own")
    assert not may_read("", "~ann/both")


def test_an_unknown_file_needs_its_size_and_the_error_says_how_to_add_it(
    scheduler: Scheduler,
) -> None:
    with pytest.raises(RejectedError, match=r"'big' is not in the catalogue: `koala files add"):
        with_inputs(a_job("big"), scheduler)
    with pytest.raises(RejectedError, match="'none/': the catalogue has no file"):
        with_inputs(a_job("none/"), scheduler)
    sized = a_job(InputFile(name=FileName("big"), size_bytes=9))
    assert with_inputs(sized, scheduler) == sized


def with_own(names: tuple[str, ...], *own: str, mode: InputMode = InputMode.WHOLE) -> JobSpec:
    """A job whose second component has inputs of its own."""
    spec = a_job(*names, mode=mode)
    files = tuple(InputFile(name=FileName(name)) for name in own)
    second = replace(spec.components[0], label="right", inputs=files)
    return replace(spec, components=(*spec.components, second))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (with_own((), "big"), r"inputs 'big' is not in the catalogue.*\(inputs=\(big BYTES\)\)"),
        (with_own((), "~bob/own"), "inputs '~bob/own' is not in the catalogue"),
        (with_own(("both",), "~ann/both"), "inputs of component right: found two files .* 'both'"),
        (with_own(("common",), "both", mode=InputMode.CHUNK), "found inputs of a component"),
    ],
)
def test_a_components_own_files_are_checked_alike(
    scheduler: Scheduler, spec: JobSpec, words: str
) -> None:
    with pytest.raises(RejectedError, match=words):
        with_inputs(spec, scheduler)
