"""Outputs and logs of claims: from a work folder through the relay into the spool."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from grpc import aio

from koala.common.files.orders import UploadOrder
from koala.common.files.uploads import UploadLimits
from koala.common.protocol.messages import ClaimEnd, EndKind, Hold, Program
from koala.common.protocol.names import ClaimId, SpooledName
from koala.common.wire.v1 import files_pb2, files_pb2_grpc
from koala.daemon.files.spool import AttemptComponent, EndedJob, Spool
from koala.daemon.files.transfer_tokens import Purpose, token
from koala.errors import SpecError
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
from tests.harness.small_disk import small_disk
from tests.live.proxied import filled

pytestmark = pytest.mark.live

CLAIM = "j1/2/0/1"
PLACE = AttemptComponent(job="j1", attempt=2, component=0)
IMPATIENT = UploadLimits(stalled_s=0.5)
"""For what stands still."""
RIGHT = b"the checksum"


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
        token=token(SECRET, Purpose.PUT, claim),
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


async def test_only_the_end_of_a_long_log_is_kept_and_it_says_so(tmp_path: Path) -> None:
    limits = UploadLimits(log_bytes_max=1000)
    async with a_finished_claim(tmp_path, limits=limits) as (delft, order):
        log = order.folder / "stdout.0"
        log.write_bytes(b"a" * 5000 + b"b" * 1000)
        await delft.files.upload(replace(order, logs=named("stdout.0")))
    kept = Spool(tmp_path / "spool").log(PLACE, "stdout.0").read_bytes()
    assert kept == b"[koala: the first 5000 bytes are left out]\n" + b"b" * 1000


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


@pytest.mark.parametrize(
    ("sent", "code", "left_bytes"),
    [
        ((b"who", b"le", RIGHT), grpc.StatusCode.OK, None),
        ((b"who",), grpc.StatusCode.DATA_LOSS, 3),  # as when the sender was killed
        ((b"whole", b"more"), grpc.StatusCode.INVALID_ARGUMENT, None),
        ((b"whole", b"", RIGHT), grpc.StatusCode.INVALID_ARGUMENT, None),
        ((b"while", RIGHT), grpc.StatusCode.DATA_LOSS, None),
        ((b"who", RIGHT), grpc.StatusCode.DATA_LOSS, None),
    ],
)
async def test_only_what_came_as_it_was_announced_is_kept(
    tmp_path: Path, sent: tuple[bytes, ...], code: grpc.StatusCode, left_bytes: int | None
) -> None:
    name = f"{CLAIM}/output/model.bin"
    start = files_pb2.PutStart(name=name, token=token(SECRET, Purpose.PUT, CLAIM), size_bytes=5)
    assert await stored(tmp_path / "spool", start, *sent) == code
    spool = Spool(tmp_path / "spool")
    assert spool.outputs(PLACE).exists() == (code == grpc.StatusCode.OK)
    left = [path.stat().st_size for path in spool.incoming.iterdir()]
    assert left == ([] if left_bytes is None else [left_bytes])


async def test_an_output_goes_on_where_the_connection_was_cut(tmp_path: Path) -> None:
    content = some_bytes(3_000_000)
    async with a_finished_claim(tmp_path) as (delft, order):
        order.folder.joinpath("model.bin").write_bytes(content)
        proxy = Proxy(order.relay, up_cuts=(1_200_000,) * 10)
        async with proxy.listening() as address:
            wanted = replace(order, outputs=named("model.bin"), relay=address)
            (uploaded,) = await delft.files.upload(wanted)
    assert uploaded.error == ""
    # Had it begun again each time, no connection would have lasted for the whole file.
    assert 2 <= proxy.cut_connections < 10
    spool = Spool(tmp_path / "spool")
    assert spool.outputs(PLACE).joinpath("model.bin").read_bytes() == content
    assert list(spool.incoming.iterdir()) == []


async def test_an_output_that_changed_between_two_tries_begins_again(tmp_path: Path) -> None:
    content = some_bytes(100_000)
    async with a_finished_claim(tmp_path) as (delft, order):
        name = SpooledName(claim=CLAIM, is_log=False, name="model.bin")
        Spool(tmp_path / "spool").part(name).write_bytes(some_bytes(60_000, seed=2))
        order.folder.joinpath("model.bin").write_bytes(content)
        (uploaded,) = await delft.files.upload(replace(order, outputs=named("model.bin")))
    assert uploaded.error == ""
    kept = Spool(tmp_path / "spool").outputs(PLACE).joinpath("model.bin")
    assert kept.read_bytes() == content


def test_bytes_that_no_sender_goes_on_with_are_deleted(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    for name in ("old", "new"):
        (spool.incoming / name).write_bytes(b"half")
    os.utime(spool.incoming / "old", (1.0, 1.0))
    spool.sweep()
    assert [path.name for path in spool.incoming.iterdir()] == ["new"]


@pytest.mark.parametrize(
    "start",
    [
        files_pb2.PutStart(name="output/../../../../out"),
        files_pb2.PutStart(name="output//out"),
        files_pb2.PutStart(name="output/"),
        files_pb2.PutStart(name="output/out", label="x" * 2000),
        files_pb2.PutStart(name="output/out", size_bytes=2**41),
        files_pb2.PutStart(name="log/stdout.0", size_bytes=2**24),
    ],
)
async def test_a_hostile_start_is_refused_for_good_before_anything_is_sent(
    tmp_path: Path, start: files_pb2.PutStart
) -> None:
    start.name = f"{CLAIM}/{start.name}"
    start.token = token(SECRET, Purpose.PUT, CLAIM)
    code = await stored(tmp_path / "spool", start)
    assert code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OUT_OF_RANGE)
    assert everything_in(tmp_path) == ["spool", "incoming"]


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


async def test_a_name_under_a_file_that_exists_is_refused(tmp_path: Path) -> None:
    async with a_finished_claim(tmp_path) as (delft, order):
        order.folder.joinpath("a").write_bytes(b"file")
        await delft.files.upload(replace(order, outputs=named("a")))
        order.folder.joinpath("a").unlink()
        order.folder.joinpath("a").mkdir()
        order.folder.joinpath("a", "b").write_bytes(b"file")
        (uploaded,) = await delft.files.upload(replace(order, outputs=named("a/b")))
    assert "INVALID_ARGUMENT" in uploaded.error


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


def test_tokens_differ_by_secret_purpose_and_identity() -> None:
    tokens = {
        token(secret, purpose, identity)
        for secret in (b"a", b"b")
        for purpose in Purpose
        for identity in ("j1/1/t1", "j1/1/t2")
    }
    assert len(tokens) == 2 * len(Purpose) * 2


def everything_in(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*")]


async def stored(spool: Path, start: files_pb2.PutStart, *blocks: bytes) -> grpc.StatusCode | None:
    """Return a relay's answer to a stream of these messages; RIGHT is the checksum."""
    async with a_relay(spool) as address, aio.insecure_channel(address) as channel:
        call = files_pb2_grpc.RelayStub(channel).Put()
        with suppress(asyncio.InvalidStateError):  # the relay has answered already
            await call.write(files_pb2.Frame(start=start))
            for block in blocks:
                frame = files_pb2.Frame(data=block)
                if block is RIGHT:
                    frame = files_pb2.Frame(checksum=sha256(b"whole"))
                await call.write(frame)
            await call.done_writing()
        with suppress(aio.AioRpcError):
            async for _answer in call:
                pass
        return await call.code()


def store(
    spool: Spool, name: str, content: bytes, *, claim: str = CLAIM, is_log: bool = False
) -> None:
    part = spool.incoming / "part"
    part.write_bytes(content)
    spool.store(part, SpooledName(claim=claim, is_log=is_log, name=name), "left")
