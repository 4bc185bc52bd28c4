"""Files that users add to a site's store: its limits, and names that stay the site's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koala.common.files.replica_store import FileStore
from koala.common.protocol.messages import FetchOrder, TransferFailed
from koala.errors import SpecError
from koala_agent.files import Files, FilesSettings

ORDER = FetchOrder(
    transfer=f"{'0' * 64}/0/t1", file="~ann/a", source="daemon", address="127.0.0.1:1", token="t",
    size_bytes=2000, checksum="a" * 64, keep_as="~ann/a",
)  # fmt: skip


def reason(folder: Path, order: FetchOrder, **settings: Any) -> str:
    told: list[object] = []
    whole = FilesSettings(site="delft", store=folder / "files", state=folder, **settings)
    Files(whole, told.append).fetch(order)
    (failed,) = told
    assert isinstance(failed, TransferFailed)
    assert failed.at == "delft"
    return failed.reason


def test_a_file_at_the_site_is_taken_only_where_programs_may_read_all(tmp_path: Path) -> None:
    text = reason(tmp_path, replace(ORDER, path="/etc/passwd"))
    assert "users of delft may not read what its agent may" in text


@pytest.mark.parametrize("name", ["common", "~ann", "~ann/../common", "/common", ""])
def test_no_order_touches_a_file_of_the_site_itself(tmp_path: Path, name: str) -> None:
    store = FileStore(tmp_path / "files", tmp_path / "checksums.json")
    kept, new = tmp_path / "files" / "common", tmp_path / "new"
    kept.write_text("the site's")
    new.write_text("a user's")
    with pytest.raises(SpecError):
        store.adopt(new, name)
    with pytest.raises(SpecError):
        store.take(new, name)
    with pytest.raises(SpecError):
        store.remove(name)
    assert kept.read_text() == "the site's"


def test_an_added_file_is_taken_and_removed_with_its_empty_folders(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "files", tmp_path / "checksums.json")
    new = tmp_path / "new"
    new.write_text("a user's")
    store.adopt(new, "~ann/deep/er/a")
    (tmp_path / "files" / ".koala-half").write_text("half a copy")
    assert list(store.list().files) == ["~ann/deep/er/a"]
    store.remove("~ann/deep/er/a")
    store.remove("~ann/deep/er/a")
    assert [path.name for path in (tmp_path / "files").iterdir()] == [".koala-half"]
    FileStore(tmp_path / "files", tmp_path / "checksums.json")
    assert list((tmp_path / "files").iterdir()) == [], "of an agent that was killed"
