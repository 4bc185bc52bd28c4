"""Hostile names and hostile folders: nothing outside is ever opened, written or listed."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from koala.common.files.confined_folder import Descriptor, Folder, UnusableFileError
from koala.common.files.names import PART_BYTES_MAX, check_name, escape, is_name
from koala.common.protocol.names import SpooledName
from koala.daemon.files.spool import AttemptComponent, Spool
from koala.errors import SpecError

SECRET = b"what nobody may read"

HOSTILE_PARTS = (
    *("..", ".", "", "...", "..\0", "\0", "\n", "-rf", "~", "$(id)", "%2e%2e", "..\\..", "a", "b"),
    *("inside", "link", "out", "folder-link", "fifo", "deep", "loop", "outside", "secret", "proc"),
    *("é" * 128, "x" * 256, "\u202e..", "\ud800", "\uff0e\uff0e", "\x7f", "\u2028", "\U0001f600"),
)
PARTS = st.one_of(st.sampled_from(HOSTILE_PARTS), st.text(max_size=12))
NAMES = st.one_of(
    st.lists(PARTS, max_size=6).map("/".join),
    st.lists(PARTS, max_size=6).map(lambda parts: "/" + "/".join(parts)),
    st.integers(1, 5000).map(lambda count: "y" * count),
)


@pytest.fixture(scope="module")
def trap(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store full of ways out, beside a secret."""
    folder = tmp_path_factory.mktemp("trap")
    folder.joinpath("outside").mkdir()
    folder.joinpath("outside", "secret").write_bytes(SECRET)
    store = folder / "store"
    store.joinpath("deep", "a").mkdir(parents=True)
    store.joinpath("inside").write_bytes(b"inside")
    store.joinpath("deep", "a", "b").write_bytes(b"inside")
    store.joinpath("link").symlink_to(folder / "outside" / "secret")
    store.joinpath("folder-link").symlink_to(folder / "outside")
    store.joinpath("out").symlink_to("..")
    store.joinpath("loop").symlink_to("loop")
    os.mkfifo(store / "fifo")
    return folder


def check_store(trap: Path, name: str) -> None:
    """Check that everything that opens lies inside and is a regular file."""
    try:
        descriptor = Folder(trap / "store").open(name)
    except (SpecError, UnusableFileError):
        return
    assert descriptor.read(100, 0) == b"inside"
    descriptor.close()


def check_spool(spool: Spool, *, name: str, label: str, job: str, is_log: bool) -> None:
    """Whatever the relay is sent, nothing appears but below the job's own folder."""
    part = spool.incoming / "part"
    part.write_bytes(b"stored")
    jobs = spool.incoming.parent.resolve() / "jobs"
    try:
        spooled = SpooledName(claim=f"{job}/1/0/1", is_log=is_log, name=name)
        spool.store(part, spooled, label)
    except (SpecError, OSError):  # or a file stands where this name needs a folder
        return
    place = AttemptComponent(job=job, attempt=1, component=0)
    stored = (spool.logs(place) if is_log else spool.outputs(place)) / name
    assert stored.read_bytes() == b"stored"
    assert stored.resolve().is_relative_to(jobs / escape(job) / "attempt-1" / "0")
    if not is_log:
        shown = spool.publish(job, 1)
        assert shown
        for each in shown:
            path = (spool.published(job) / each).resolve()
            assert path.is_relative_to(jobs / escape(job) / "output")
    shutil.rmtree(spool.published(job).parent)


@given(NAMES)
@example("folder-link/secret")
@example("out/outside/secret")
@example("link")
@example("fifo")
@example("deep/../../outside/secret")
def test_no_name_opens_anything_outside_the_store(trap: Path, name: str) -> None:
    check_store(trap, name)


@given(NAMES, NAMES, NAMES, st.booleans())
def test_no_claim_label_or_name_puts_anything_outside_the_spool(
    trap: Path, name: str, label: str, job: str, is_log: bool
) -> None:
    check_spool(Spool(trap / "spool"), name=name, label=label, job=job, is_log=is_log)
    assert sorted(path.name for path in trap.iterdir()) == ["outside", "spool", "store"]


@given(NAMES)
def test_an_accepted_name_has_only_harmless_parts(name: str) -> None:
    if is_name(name):
        parts = check_name(name)
        assert "/".join(parts) == name
        assert not {"", ".", ".."}.intersection(parts)
        assert max(len(part.encode()) for part in parts) <= PART_BYTES_MAX
        assert name.isprintable() or not any(ord(c) < 32 or ord(c) == 127 for c in name)
    else:
        with pytest.raises(SpecError, match="expected a relative path"):
            check_name(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "is empty"),
        ("/etc/passwd", "is absolute"),
        ("a/../b", "has the part '..'"),
        ("a//b", "has the part ''"),
        ("a\nb", "has a control character"),
        ("a" * 256, "has a part of 256 bytes"),
        ("a/" * 40 + "a", "has 41 parts"),
        ("é" * 600, "has 1200 bytes"),
    ],
)
def test_a_refused_name_is_shown_with_what_is_wrong(name: str, why: str) -> None:
    with pytest.raises(SpecError) as caught:
        check_name(name)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


@contextmanager
def repeated(swap: Callable[[], None]) -> Iterator[None]:
    """A thread does this again and again, and has done it once when the block begins."""
    has_swapped = threading.Event()
    is_over = threading.Event()

    def repeat() -> None:
        while not is_over.is_set():
            swap()
            has_swapped.set()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        assert has_swapped.wait(30)
        yield
    finally:
        is_over.set()
        thread.join()


def check_inside(store: Path, name: str, *, tries: int) -> None:
    """Whatever the name leads to at the moment, it is not outside the store."""
    for _ in range(tries):
        try:
            descriptor = Folder(store).open(name)
        except UnusableFileError:
            continue
        assert descriptor.read(100, 0) == b"inside"
        descriptor.close()


def test_a_folder_swapped_for_a_link_while_it_is_read_leads_nowhere(
    trap: Path, tmp_path: Path
) -> None:
    """As in CVE-2023-41914: one thread swaps, the other reads; the secret never comes."""
    store = tmp_path
    store.joinpath("real").mkdir(parents=True)
    store.joinpath("real", "secret").write_bytes(b"inside")
    path = store / "folder"

    def swap() -> None:
        path.symlink_to(trap / "outside")
        path.unlink()
        store.joinpath("real").rename(path)
        path.rename(store / "real")

    with repeated(swap):
        check_inside(store, "folder/secret", tries=2000)


def test_a_file_swapped_for_a_link_between_look_and_open_leads_nowhere(
    trap: Path, tmp_path: Path
) -> None:
    store = tmp_path

    def swap() -> None:
        store.joinpath("new").symlink_to(trap / "outside" / "secret")
        store.joinpath("new").rename(store / "file")
        store.joinpath("new").write_bytes(b"inside")
        store.joinpath("new").rename(store / "file")

    with repeated(swap):
        check_inside(store, "file", tries=4000)


def test_a_descriptor_closed_while_a_thread_uses_it_stays_open_until_then(tmp_path: Path) -> None:
    """Otherwise the thread could read from, or write to, another file that got the number."""
    path = tmp_path / "file"
    path.write_bytes(b"content")
    descriptor = Descriptor(os.open(path, os.O_RDONLY))
    with descriptor.use() as number:
        descriptor.close()
        assert os.pread(number, 100, 0) == b"content"
    with pytest.raises(OSError, match="closed"):
        descriptor.read(1, 0)
    assert str(path) not in {file.path for file in psutil.Process().open_files()}
