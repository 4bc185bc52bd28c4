"""Outputs and logs of claims: from a work folder through the relay into the spool."""

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from grpc import aio

from koala.common.files import uploads as outputs
from koala.common.files.confined_folder import Descriptor, UnusableFileError
from koala.common.files.orders import Uploaded, UploadOrder
from koala.common.files.uploads import UploadLimits
from koala.common.protocol.messages import ClaimEnd, EndKind, Hold, Program
from koala.common.protocol.names import ClaimId
from koala.common.runtime import clock
from koala.common.wire.v1 import files_pb2, files_pb2_grpc
from koala.daemon.files.spool import AttemptComponent, EndedJob, Spool, component_of_claim
from koala.daemon.files.transfer_tokens import Purpose, token
from koala.errors import RejectedError, SpecError
from koala_agent.claim_surroundings import check_outputs
from koala_agent.claims.states import Claim, Gone
from koala_agent.placeholders.result_files import upload_order
from tests.common.files.stage import (
    LIMIT_S,
    SECRET,
    Proxy,
    SiteOfFiles,
    a_relay,
    a_site,
    running,
    sha256,
    some_bytes,
)
from tests.harness.small_disk import enlarge, small_disk
from tests.live.proxied import filled

pytestmark = pytest.mark.live

CLAIM = "j1/2/0/1"
PLACE = AttemptComponent(job="j1", attempt=2, component=0)
IMPATIENT = UploadLimits(stalled_s=0.5)
"""For what stands still."""
BUSY = UploadLimits(stalled_s=1.5)
"""Longer than a busy machine stands still."""


@asynccontextmanager
async def a_finished_claim(
    tmp_path: Path, *, limits: UploadLimits | None = None, **relay: object
) -> AsyncIterator[tuple[SiteOfFiles, UploadOrder]]:
    """A site, a relay, and a claim with an empty work folder."""
    work = tmp_path / "work"
    work.mkdir()
    async with (
        a_relay(tmp_path / "spool", **relay) as address,
        running(a_site(tmp_path, "delft", uploads=limits or UploadLimits())) as delft,
    ):
        yield delft, an_upload(work, address)


def an_upload(work: Path, address: str, *, claim: str = CLAIM, label: str = "left") -> UploadOrder:
    return UploadOrder(
        claim=claim,
        label=label,
        token=token(SECRET, Purpose.STORE, claim),
        relay=address,
        folder=work,
        outputs={},
        logs={},
    )


def a_claim_of(program: Program, token: str) -> Claim:
    """That has run this program to its end."""
    hold = Hold(
        claim=ClaimId(CLAIM),
        processors=1,
        hold_s=60.0,
        program=program,
        port=20_000,
        store_token=token,
    )
    return Claim(hold=hold, secret="", state=Gone(end=ClaimEnd(kind=EndKind.EXITED), due_at=0.0))


def named(*names: str) -> dict[str, str]:
    """Files of a claim whose program runs in the claim's own folder."""
    return dict(zip(names, names, strict=True))


async def test_outputs_and_logs_reach_the_spool_whole(tmp_path: Path) -> None:
    content = some_bytes(2_000_000)
    async with a_finished_claim(tmp_path) as (delft, order):
        order.folder.joinpath("results").mkdir()
        order.folder.joinpath("results", "model.bin").write_bytes(content)
        order.folder.joinpath("empty").write_bytes(b"")
        order.folder.joinpath("stdout.0").write_bytes(b"hello\n")
        uploaded = await delft.files.upload(
            replace(
                order,
                outputs=named("results/model.bin", "empty"),
                logs=named("stdout.0"),
            )
        )
    assert uploaded == (
        Uploaded(name="results/model.bin", is_log=False, size_bytes=len(content)),
        Uploaded(name="empty", is_log=False, size_bytes=0),
        Uploaded(name="stdout.0", is_log=True, size_bytes=6),
    )
    spool = Spool(tmp_path / "spool")
    assert spool.outputs(PLACE).joinpath("results", "model.bin").read_bytes() == content
    assert spool.outputs(PLACE).joinpath("empty").read_bytes() == b""
    assert spool.log(PLACE, "stdout.0").read_bytes() == b"hello\n"
    assert list(spool.incoming.iterdir()) == []


async def test_files_that_are_no_outputs_are_named_and_the_others_still_come(
    tmp_path: Path,
) -> None:
    tmp_path.joinpath("secret").write_bytes(b"secret")
    async with a_finished_claim(tmp_path) as (delft, order):
        order.folder.joinpath("folder").mkdir()
        order.folder.joinpath("link").symlink_to(tmp_path / "secret")
        order.folder.joinpath("out").symlink_to(tmp_path)
        os.mkfifo(order.folder / "fifo")
        order.folder.joinpath("good").write_bytes(b"good")
        names = ("missing", "folder", "link", "out/secret", "../secret", "fifo", "good")
        uploaded = await delft.files.upload(
            replace(order, outputs=named(*names), logs={"stderr.0": "link"})
        )
    errors = {each.name: each.error for each in uploaded}
    assert errors["missing"] == "file 'missing': does not exist"
    assert errors["folder"] == "file 'folder': is not a regular file"
    assert "'link': is a symbolic link" in errors["link"]
    assert "'out/secret': is a symbolic link" in errors["out/secret"]
    assert "'../secret': has the part '..'" in errors["../secret"]
    assert errors["fifo"] == "file 'fifo': is not a regular file"
    assert "is a symbolic link" in errors["stderr.0"]
    assert errors["good"] == ""
    outputs = Spool(tmp_path / "spool").outputs(PLACE)
    assert [path.name for path in outputs.iterdir()] == ["good"]


@pytest.mark.parametrize("directory", ["..", "/{outside}", "out", "in/../.."])
async def test_nothing_outside_of_the_claims_folder_is_collected(
    tmp_path: Path, directory: str
) -> None:
    """The agent may read what the job's account may not."""
    directory = directory.format(outside=tmp_path.relative_to("/"))
    tmp_path.joinpath("site.pem").write_bytes(b"secret")
    async with a_finished_claim(tmp_path) as (delft, order):
        order.folder.joinpath("out").symlink_to(tmp_path)
        order.folder.joinpath("in").mkdir()
        program = Program(
            executable="/bin/true",
            directory=directory,
            stdout="site.pem",
            output_files=("site.pem",),
        )
        claim = a_claim_of(program, order.token)
        wanted = upload_order(claim, order.folder, relay=order.relay)
        output, log = await delft.files.upload(wanted)
        unseen = await check_outputs(claim, order.folder)
    assert unseen
    assert output.error
    assert log.error
    assert not Spool(tmp_path / "spool").outputs(PLACE).exists()


@pytest.mark.parametrize("directory", ["..", "/{outside}"])
async def test_where_programs_may_read_all_outputs_may_lie_elsewhere(
    tmp_path: Path, directory: str
) -> None:
    """The claim's folder is in the folder that has them."""
    directory = directory.format(outside=tmp_path.relative_to("/"))
    tmp_path.joinpath("result").write_bytes(b"42")
    tmp_path.joinpath("out.txt").write_bytes(b"hello")
    async with a_finished_claim(tmp_path) as (delft, order):
        program = Program(
            executable="/bin/true",
            directory=directory,
            stdout="out.txt",
            output_files=("result",),
        )
        wanted = upload_order(
            a_claim_of(program, order.token), order.folder, relay=order.relay, may_leave=True
        )
        output, log = await delft.files.upload(wanted)
    assert (output.error, log.error) == ("", "")
    assert (Spool(tmp_path / "spool").outputs(PLACE) / "result").read_bytes() == b"42"


async def test_only_the_end_of_a_long_log_is_kept_and_it_says_so(tmp_path: Path) -> None:
    limits = UploadLimits(log_bytes_max=1000)
    async with a_finished_claim(tmp_path, limits=limits) as (delft, order):
        log = order.folder / "stdout.0"
        log.write_bytes(b"a" * 5000 + b"b" * 1000)
        await delft.files.upload(replace(order, logs=named("stdout.0")))
    kept = Spool(tmp_path / "spool").log(PLACE, "stdout.0").read_bytes()
    assert kept == b"[koala: the first 5000 bytes are left out]\n" + b"b" * 1000


async def test_an_output_that_the_agent_cannot_read_now_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For want of a descriptor, say: its job would have failed that had ended well."""
    opened, failures = outputs._open, iter(range(2))

    def open_some_time(order: UploadOrder, name: str, path: str) -> Descriptor:
        if next(failures, None) is not None:
            try:
                raise OSError(errno.EMFILE, "Too many open files")
            except OSError as error:
                raise UnusableFileError(f"file {name}: {error.strerror}") from error
        return opened(order, name, path)

    monkeypatch.setattr(outputs, "_open", open_some_time)
    async with a_finished_claim(tmp_path) as (delft, order):
        order.folder.joinpath("result").write_bytes(b"1234")
        uploaded = await delft.files.upload(replace(order, outputs=named("result"), logs={}))
    assert uploaded == (Uploaded(name="result", is_log=False, size_bytes=4),)


async def test_an_output_that_no_relay_takes_is_not_even_read(tmp_path: Path) -> None:
    """A program makes one of holes in no time, and reading it takes hours, and a place of few."""
    async with a_finished_claim(tmp_path) as (delft, order):
        with order.folder.joinpath("holes").open("wb") as file:
            os.truncate(file.fileno(), 2**43)
        async with asyncio.timeout(LIMIT_S):
            (refused,) = await delft.files.upload(replace(order, outputs=named("holes"), logs={}))
        assert "file 'holes' has 8796093022208 bytes; allowed are 1099511627776" in refused.error


async def test_an_output_that_is_mostly_holes_does_not_fill_the_daemons_disk(
    tmp_path: Path,
) -> None:
    """It takes a program nothing to make a file of a terabyte."""
    async with a_finished_claim(tmp_path, free_bytes_min=2**62) as (delft, order):
        size = 128 * 2**20
        with order.folder.joinpath("holes").open("wb") as file:
            file.truncate(size)
        (refused,) = await delft.files.upload(replace(order, outputs=named("holes"), logs={}))
    assert "has 134217728 bytes; the spool has room for 0" in refused.error
    assert list(Spool(tmp_path / "spool").incoming.iterdir()) == []


@pytest.mark.root
async def test_outputs_leave_the_room_that_the_ballast_gave_up(tmp_path: Path) -> None:
    """However small they are; another try is worth it when there is room again."""
    mega = 2**20
    with small_disk(tmp_path / "spool", megabytes=8):
        async with a_finished_claim(tmp_path, limits=BUSY, kept_bytes=5 * mega) as (
            delft,
            order,
        ):
            names = tuple(f"out{number}" for number in range(5))
            for name in names:
                order.folder.joinpath(name).write_bytes(os.urandom(mega))
            of_all = replace(order, outputs=named(*names), logs={})
            errors = [each.error for each in await delft.files.upload(of_all)]
            assert errors.count("") == 2, errors
            assert shutil.disk_usage(tmp_path / "spool").free >= 5 * mega
            enlarge(tmp_path / "spool", megabytes=32)
            assert [each.error for each in await delft.files.upload(of_all)] == [""] * 5


@pytest.mark.root
async def test_a_spool_without_room_is_told_in_a_line_and_no_half_file_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with small_disk(tmp_path / "spool", megabytes=1):
        async with a_finished_claim(tmp_path, limits=UploadLimits(stalled_s=3.0)) as (delft, order):
            order.folder.joinpath("good").write_bytes(b"good")
            with filled(tmp_path / "spool", leave_bytes=0):
                (lost,) = await delft.files.upload(replace(order, outputs=named("good"), logs={}))
            assert "No space left on device" in lost.error
            (stored,) = await delft.files.upload(replace(order, outputs=named("good"), logs={}))
            assert stored.error == ""
        assert list((tmp_path / "spool" / "incoming").iterdir()) == []
    said = capsys.readouterr()
    assert "upload.not_stored" in said.out + said.err
    assert "Traceback" not in said.out + said.err


@pytest.mark.parametrize("claim", ["j1/1/0/1", "j1/2/1/1", "j2/2/0/1"])
async def test_a_claim_cannot_store_for_another_one(tmp_path: Path, claim: str) -> None:
    """An old attempt keeps its token, which is none for the new one."""
    async with a_finished_claim(tmp_path) as (delft, order):
        order.folder.joinpath("good").write_bytes(b"good")
        (uploaded,) = await delft.files.upload(replace(order, claim=claim, outputs=named("good")))
    assert "UNAUTHENTICATED" in uploaded.error
    assert not tmp_path.joinpath("spool", "jobs").exists()


async def test_an_upload_that_is_cut_is_tried_again(tmp_path: Path) -> None:
    content = some_bytes(2_000_000)
    async with a_finished_claim(tmp_path) as (delft, order):
        order.folder.joinpath("model.bin").write_bytes(content)
        proxy = Proxy(order.relay, up_cuts=(700_000,))
        async with proxy.listening() as address:
            (uploaded,) = await delft.files.upload(
                replace(order, outputs=named("model.bin"), relay=address)
            )
        assert uploaded.error == ""
        assert proxy.cut_connections == 1
    spool = Spool(tmp_path / "spool")
    assert spool.outputs(PLACE).joinpath("model.bin").read_bytes() == content
    assert list(spool.incoming.iterdir()) == []


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ((b"whole",), grpc.StatusCode.OK),
        ((b"who",), grpc.StatusCode.DATA_LOSS),  # as when the sender was killed
        ((b"whole", b"more"), grpc.StatusCode.INVALID_ARGUMENT),
        ((b"while",), grpc.StatusCode.DATA_LOSS),
    ],
)
async def test_only_what_came_as_it_was_announced_is_kept(
    tmp_path: Path, sent: tuple[bytes, ...], code: grpc.StatusCode
) -> None:
    start = files_pb2.StoreStart(
        claim=CLAIM,
        token=token(SECRET, Purpose.STORE, CLAIM),
        name="model.bin",
        size_bytes=5,
        checksum=sha256(b"whole"),
    )
    assert await stored(tmp_path / "spool", start, *sent) == code
    spool = Spool(tmp_path / "spool")
    assert spool.outputs(PLACE).exists() == (code == grpc.StatusCode.OK)
    assert list(spool.incoming.iterdir()) == []


@pytest.mark.parametrize(
    "start",
    [
        files_pb2.StoreStart(name="../../../../out"),
        files_pb2.StoreStart(name="/out"),
        files_pb2.StoreStart(name=""),
        files_pb2.StoreStart(name="out", label="x" * 2000),
        files_pb2.StoreStart(name="out", size_bytes=2**41),
        files_pb2.StoreStart(name="stdout.0", is_log=True, size_bytes=2**24),
    ],
)
async def test_a_hostile_start_is_refused_for_good_before_anything_is_sent(
    tmp_path: Path, start: files_pb2.StoreStart
) -> None:
    start.MergeFrom(files_pb2.StoreStart(claim=CLAIM, token=token(SECRET, Purpose.STORE, CLAIM)))
    code = await stored(tmp_path / "spool", start)
    assert code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OUT_OF_RANGE)
    assert everything_in(tmp_path) == ["spool", "incoming"]


async def test_an_upload_to_nobody_is_given_up_in_time_and_names_the_file(tmp_path: Path) -> None:
    async with a_finished_claim(tmp_path, limits=IMPATIENT) as (delft, order):
        order.folder.joinpath("good").write_bytes(b"good")
        async with asyncio.timeout(LIMIT_S):
            (uploaded,) = await delft.files.upload(
                replace(order, outputs=named("good"), relay="127.0.0.1:1")
            )
    assert "file 'good' to 127.0.0.1:1: UNAVAILABLE" in uploaded.error


@pytest.mark.slow
async def test_an_upload_takes_as_long_as_it_goes_forward(tmp_path: Path) -> None:
    """Five seconds over a slow link, which are several times what it may stand still."""
    content = some_bytes(8_000_000)
    began_at = clock.now()
    async with (
        a_finished_claim(tmp_path, limits=BUSY, bytes_per_s=1_600_000.0) as (delft, order),
        asyncio.timeout(LIMIT_S),
    ):
        order.folder.joinpath("good").write_bytes(content)
        (uploaded,) = await delft.files.upload(replace(order, outputs=named("good")))
    assert uploaded == Uploaded(name="good", is_log=False, size_bytes=len(content))
    assert clock.now() - began_at > 3 * BUSY.stalled_s


async def test_an_upload_that_stands_still_is_given_up_and_names_the_file(tmp_path: Path) -> None:
    """The connection stays, but nothing comes through any more."""
    async with a_finished_claim(tmp_path, limits=IMPATIENT) as (delft, order):
        order.folder.joinpath("good").write_bytes(some_bytes(2_000_000))
        async with (
            Proxy(order.relay, up_freezes=(500_000,)).listening() as address,
            asyncio.timeout(LIMIT_S),
        ):
            (uploaded,) = await delft.files.upload(
                replace(order, outputs=named("good"), relay=address)
            )
    assert uploaded.error == f"file 'good' to {address}: nothing went forward for 0.5 s"


async def test_an_upload_that_is_cut_at_the_same_place_ends(tmp_path: Path) -> None:
    async with a_finished_claim(tmp_path, limits=BUSY) as (delft, order):
        order.folder.joinpath("good").write_bytes(some_bytes(2_000_000))
        proxy = Proxy(order.relay, up_cuts=(700_000,) * 1_000)
        async with proxy.listening() as address, asyncio.timeout(LIMIT_S):
            (uploaded,) = await delft.files.upload(
                replace(order, outputs=named("good"), relay=address)
            )
    assert uploaded.error.startswith(f"file 'good' to {address}: ")
    assert proxy.cut_connections > 1


async def test_an_upload_goes_to_the_relay_of_the_daemon_that_came_back(tmp_path: Path) -> None:
    """Each life of a daemon has a relay at an address of its own."""
    async with a_finished_claim(tmp_path) as (delft, order):
        order.folder.joinpath("good").write_bytes(b"good")
        before = replace(order, outputs=named("good"), relay="127.0.0.1:1")
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
            uploading = group.create_task(delft.files.upload(before))
            await asyncio.sleep(0)  # it has begun
            delft.relay = order.relay
        (uploaded,) = uploading.result()
    assert uploaded.error == ""
    assert Spool(tmp_path / "spool").outputs(PLACE).joinpath("good").read_bytes() == b"good"


async def test_a_name_under_a_file_that_exists_is_refused(tmp_path: Path) -> None:
    async with a_finished_claim(tmp_path) as (delft, order):
        order.folder.joinpath("a").write_bytes(b"file")
        await delft.files.upload(replace(order, outputs=named("a")))
        order.folder.joinpath("a").unlink()
        order.folder.joinpath("a").mkdir()
        order.folder.joinpath("a", "b").write_bytes(b"file")
        (uploaded,) = await delft.files.upload(replace(order, outputs=named("a/b")))
    assert "INVALID_ARGUMENT" in uploaded.error


async def test_outputs_of_the_attempt_that_finished_are_published_under_their_labels(
    tmp_path: Path,
) -> None:
    async with a_finished_claim(tmp_path) as (delft, order):
        for claim, label in (
            ("j1/1/0/1", "left"),  # an earlier attempt, which did not finish
            ("j1/2/0/1", "left"),
            ("j1/2/1/1", "a label/with ../all"),
            ("j1/2/2/1", ""),
        ):
            order.folder.joinpath("model.bin").write_bytes(claim.encode())
            upload = an_upload(order.folder, order.relay, claim=claim, label=label)
            await delft.files.upload(replace(upload, outputs=named("model.bin")))
    spool = Spool(tmp_path / "spool")
    assert not spool.published("j1").exists()
    names = ("left/model.bin", "a%20label%2Fwith%20..%2Fall/model.bin", "2/model.bin")
    assert spool.publish("j1", 2) == names
    assert spool.publish("j1", 2) == names
    assert [spool.published("j1").joinpath(name).read_bytes() for name in names] == [
        b"j1/2/0/1",
        b"j1/2/1/1",
        b"j1/2/2/1",
    ]
    with pytest.raises(RejectedError, match="attempt 2 of j1 are published; attempt 1 cannot be"):
        spool.publish("j1", 1)


def test_an_output_that_came_late_or_again_is_published_by_doing_it_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    store(spool, "a", b"first")
    assert spool.publish("j1", 2) == ("left/a",)
    store(spool, "a", b"second")
    store(spool, "b", b"late")
    assert spool.publish("j1", 2) == ("left/a", "left/b")
    assert spool.published("j1").joinpath("left", "a").read_bytes() == b"second"
    assert spool.published("j1").joinpath("left", "b").read_bytes() == b"late"
    assert sorted(p.name for p in spool.published("j1").joinpath("left").iterdir()) == ["a", "b"]


def test_what_earlier_attempts_left_goes_when_a_job_is_over(tmp_path: Path) -> None:
    """And what comes of them afterwards is refused; of the last one more may come."""
    spool = Spool(tmp_path / "spool")
    for claim in ("j1/1/0/1", "j1/2/0/1"):
        store(spool, "a", b"a", claim=claim)
        store(spool, "stdout.0", b"said", claim=claim, is_log=True)
    spool.finish(EndedJob(job="j1", attempt=2, is_finished=True))
    for is_log in (False, True):
        with pytest.raises(SpecError, match="the job is over"):
            store(spool, "late", b"late", claim="j1/1/0/1", is_log=is_log)
        store(spool, "late", b"late", claim="j1/2/0/1", is_log=is_log)
    spool.finish(EndedJob(job="j1", attempt=2, is_finished=True))
    names = ["attempt-2", "output", "published"]
    assert sorted(path.name for path in (tmp_path / "spool" / "jobs" / "j1").iterdir()) == names
    assert spool.published("j1").joinpath("left", "late").read_bytes() == b"late"


def test_of_a_job_that_failed_only_the_last_logs_stay(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    for claim in ("j1/1/0/1", "j1/2/0/1"):
        store(spool, "a", b"a", claim=claim)
        store(spool, "stdout.0", b"said", claim=claim, is_log=True)
    for _ in range(2):
        spool.finish(EndedJob(job="j1", attempt=2, is_finished=False))
    for claim, is_log in (("j1/1/0/1", True), ("j1/2/0/1", False)):
        with pytest.raises(SpecError, match="the job is over"):
            store(spool, "late", b"late", claim=claim, is_log=is_log)
    store(spool, "stderr.0", b"late", claim="j1/2/0/1", is_log=True)
    files = [path for path in (tmp_path / "spool" / "jobs").rglob("*") if path.is_file()]
    assert sorted(path.name for path in files) == ["given-up", "label", "stderr.0", "stdout.0"]
    assert not list((tmp_path / "spool" / "jobs" / "j1").glob("attempt-1"))


def test_components_with_the_same_label_are_published_side_by_side(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    store(spool, "a", b"first")
    store(spool, "a", b"second", claim="j1/2/1/1")
    assert spool.publish("j1", 2) == ("left.0/a", "left.1/a")


@pytest.mark.parametrize("was_finished", [True, False])
def test_a_job_whose_end_was_lost_with_the_journal_has_the_outputs_of_its_later_end(
    tmp_path: Path, was_finished: bool
) -> None:
    """The daemon goes on as after a loss, and runs it once more; else it would fail for want of its
    outputs."""
    spool = Spool(tmp_path / "spool")
    store(spool, "a", b"first", claim="j1/1/0/1")
    store(spool, "b", b"first", claim="j1/1/0/1")
    spool.finish(EndedJob(job="j1", attempt=1, is_finished=was_finished))
    store(spool, "a", b"later", claim="j1/1001/0/1")
    store(spool, "stdout.0", b"said", claim="j1/1001/0/1", is_log=True)
    spool.finish(EndedJob(job="j1", attempt=1001, is_finished=True))
    published = spool.published("j1") / "left"
    assert {path.name: path.read_bytes() for path in published.iterdir()} == {"a": b"later"}
    with pytest.raises(SpecError, match="the job is over"):
        store(spool, "a", b"late", claim="j1/1/0/1")
    with pytest.raises(RejectedError):
        spool.finish(EndedJob(job="j1", attempt=1, is_finished=True))


@pytest.mark.parametrize("marker", ["published", "given-up"])
def test_a_damaged_marker_is_another_one(tmp_path: Path, marker: str) -> None:
    """All jobs that are over are looked at when a daemon starts: one of them must not end it."""
    spool = Spool(tmp_path / "spool")
    over = EndedJob(job="j1", attempt=1, is_finished=marker == "published")
    spool.finish(over)
    path = tmp_path / "spool" / "jobs" / "j1" / marker
    path.write_bytes(b"\xff")
    if over.is_finished:
        with pytest.raises(RejectedError, match="outputs of attempt \ufffd of j1 are published"):
            spool.finish(over)
    else:
        spool.finish(over)
        assert path.read_bytes() == b"1"


def test_a_job_without_outputs_is_published_as_nothing(tmp_path: Path) -> None:
    assert Spool(tmp_path / "spool").publish("j9", 1) == ()


@pytest.mark.parametrize(
    "claim", ["", "j1", "j1/1/0", "j1/0/0/1", "../1/0/1/1", "j1/1/../1", "j1/1/0/1\n", "j1/-1/0/1"]
)
def test_what_is_no_claim_is_refused(claim: str) -> None:
    with pytest.raises(SpecError, match="allowed is job/attempt/component/n"):
        component_of_claim(claim)


def test_tokens_differ_by_secret_purpose_and_identity() -> None:
    tokens = {
        token(secret, purpose, identity)
        for secret in (b"a", b"b")
        for purpose in Purpose
        for identity in ("j1/1/t1", "j1/1/t2")
    }
    assert len(tokens) == 12


def everything_in(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*")]


async def stored(
    spool: Path, start: files_pb2.StoreStart, *blocks: bytes
) -> grpc.StatusCode | None:
    """Return a relay's answer to a stream of these messages."""
    async with a_relay(spool) as address, aio.insecure_channel(address) as channel:
        call = files_pb2_grpc.RelayStub(channel).Store()
        with suppress(asyncio.InvalidStateError):  # the relay has answered already
            await call.write(files_pb2.StoreUp(start=start))
            for block in blocks:
                await call.write(files_pb2.StoreUp(data=block))
            await call.done_writing()
        return await call.code()


def store(
    spool: Spool, name: str, content: bytes, *, claim: str = CLAIM, is_log: bool = False
) -> None:
    part = spool.incoming / "part"
    part.write_bytes(content)
    spool.store(part, claim=claim, label="left", name=name, is_log=is_log)
