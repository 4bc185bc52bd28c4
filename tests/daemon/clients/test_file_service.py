"""Rights to add, see and remove files."""

from __future__ import annotations

from typing import Any, cast

import pytest

from koala.common.protocol.messages import FetchOrder, FileFound, ToAgent, TransferProgress
from koala.common.wire.v1 import koala_pb2 as pb
from koala.core.model.events import JobSubmitted, ReplicaAdded
from koala.core.model.job_spec import ComponentSpec, InputFile, JobSpec
from koala.core.model.parameters import Parameters
from koala.core.model.values import FileName, JobId, SiteName, UserName
from koala.core.scheduler import Scheduler
from koala.daemon.auth.access_rules import Caller, CallerKind, Role
from koala.daemon.clients.file_service import FileService
from koala.daemon.files.additions import Additions
from koala.daemon.files.uploads import Content
from koala.daemon.loop.group_commit import BatchContext, read_only_batch
from koala.errors import RejectedError, UnknownSiteError
from koala.policies import chosen
from tests.harness.builders import a_site

HELD = {"common": "delft", "~ann/own": "delft", "~ann/shared/map": "delft", "~bob/own": "vu"}
SIZE = 1000
NEW = Content(user="ann", checksum="a" * 64, size_bytes=SIZE)


@pytest.fixture
def batch() -> BatchContext:
    scheduler = Scheduler(Parameters(), chosen())
    scheduler.handle(a_site("delft", 8), 1.0)
    scheduler.handle(a_site("vu", 16), 1.0)
    scheduler.handle(a_site("hers", 32, owner=UserName("eve")), 1.0)
    for name, site in HELD.items():
        event = ReplicaAdded(
            file=FileName(name), site=SiteName(site), size_bytes=SIZE, checksum="a" * 64
        )
        scheduler.handle(event, 1.0)
    return read_only_batch(scheduler, 2.0)


@pytest.fixture
def service() -> FileService:
    nothing = cast("Any", None)
    return FileService(
        event_loop=nothing,
        scheduler=nothing,
        uploads=nothing,
        additions=nothing,
        bytes_max=3 * SIZE,
    )


def caller(name: str, role: Role = Role.USER) -> Caller:
    return Caller(name=name, kind=CallerKind.USER, role=role)


def seen(service: FileService, batch: BatchContext, by: Caller) -> list[str]:
    return [entry.file for entry in service.visible(batch, by).files]


def test_a_user_sees_common_own_and_shared_files_and_an_operator_all(
    service: FileService, batch: BatchContext
) -> None:
    assert seen(service, batch, caller("ann")) == ["common", "~ann/own", "~ann/shared/map"]
    assert seen(service, batch, caller("bob")) == ["common", "~ann/shared/map", "~bob/own"]
    assert seen(service, batch, caller("ops", Role.OPERATOR)) == sorted(HELD)


def test_the_daemon_chooses_the_largest_site_that_the_user_may_use(
    service: FileService, batch: BatchContext
) -> None:
    def choose(wanted: str) -> tuple[str, bool]:
        return service._check_addition(batch, FileName("~ann/new"), NEW, wanted)

    assert choose("") == ("vu", False)
    assert choose("delft") == ("delft", False)
    with pytest.raises(UnknownSiteError, match=r"no site 'hers' \(expected one of delft, vu"):
        choose("hers")


def test_the_same_content_is_there_already_and_another_one_is_refused(
    service: FileService, batch: BatchContext
) -> None:
    name = FileName("~ann/own")
    assert service._check_addition(batch, name, NEW, "delft") == ("delft", True)
    other = Content(user="ann", checksum="b" * 64, size_bytes=SIZE)
    with pytest.raises(RejectedError, match=r"'~ann/own' exists with another content, at delft"):
        service._check_addition(batch, name, other, "")


def test_files_of_a_user_have_a_limit(service: FileService, batch: BatchContext) -> None:
    large = Content(user="ann", checksum="b" * 64, size_bytes=SIZE + 1)
    with pytest.raises(RejectedError, match=r"2000 that ann has .*limits.files_mb_per_user"):
        service._check_addition(batch, FileName("~ann/new"), large, "")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("common", "is a file of delft: the site's administrator"),
        ("~bob/own", "no file '~bob/own'"),
        ("none", "no file 'none'"),
    ],
)
def test_only_own_files_are_removed(
    service: FileService, batch: BatchContext, name: str, words: str
) -> None:
    with pytest.raises(RejectedError, match=words):
        service._check_removal(batch, pb.RemoveFileRequest(name=name), caller("ann"))


def test_a_shared_file_is_removed_by_its_owner_or_an_operator(
    service: FileService, batch: BatchContext
) -> None:
    shared = pb.RemoveFileRequest(name="~ann/shared/map")
    with pytest.raises(RejectedError, match="is a file of ann, who can remove it"):
        service._check_removal(batch, shared, caller("bob"))
    by_name = pb.RemoveFileRequest(name="shared/map")
    for request, by in ((by_name, caller("ann")), (shared, caller("ops", Role.OPERATOR))):
        assert service._check_removal(batch, request, by) == ("~ann/shared/map", ("delft",))


def test_a_file_that_a_job_needs_is_not_removed(service: FileService, batch: BatchContext) -> None:
    spec = JobSpec(
        components=(ComponentSpec(executable="a"),),
        owner=UserName("ann"),
        input_file=InputFile(name=FileName("~ann/own")),
    )
    batch.scheduler.handle(JobSubmitted(job=JobId("j7"), spec=spec), 2.0)
    with pytest.raises(RejectedError, match=r"is an input file of j7 \(remove it when"):
        service._check_removal(batch, pb.RemoveFileRequest(name="own"), caller("ann"))


def test_an_addition_is_ordered_again_when_its_site_registers_and_ends_with_the_file() -> None:
    sent: list[tuple[str, ToAgent]] = []
    additions = Additions(
        send=lambda site, message: sent.append((site, message)),
        relay=lambda: "127.0.0.1:1",
        secret=b"s",
    )
    delft, name = SiteName("delft"), "~ann/new"
    with additions.adding(delft, NEW, name) as addition:
        (order,) = additions.orders(delft)
        assert sent == [("delft", order)]
        assert isinstance(order, FetchOrder)
        assert (order.keep_as, order.address) == (name, "127.0.0.1:1")
        assert additions.orders(SiteName("vu")) == []
        progress = TransferProgress(transfer=order.transfer, size_bytes=500, took_s=1.0)
        additions.note(SiteName("vu"), progress)
        assert addition.moved_bytes == 0
        additions.note(delft, progress)
        assert addition.moved_bytes == 500
        other = FileFound(file=name, size_bytes=SIZE, checksum="b" * 64)
        additions.note(delft, other)
        assert not addition.is_over
        additions.note(delft, FileFound(file=name, size_bytes=SIZE, checksum="a" * 64))
        assert addition.is_found
    assert additions.orders(delft) == []
