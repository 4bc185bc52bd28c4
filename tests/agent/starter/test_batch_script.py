"""The starter as a batch script carries it to machines that see nothing of ours."""

from __future__ import annotations

import ast
import base64
import json
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from koala_agent.placeholders import starter_installation
from koala_agent.placeholders.launch_settings import LaunchSettings
from koala_agent.placeholders.starter_installation import install_starter
from koala_agent.starter.node.remote_nodes import helpers_archive

INPUT_BYTES_MAX = 65_536
"""Most that `qrsh` passes on before its other end reads: with more it hangs (measured)."""
ROOM_BYTES = 12_000
"""For what comes beside it: specification, addresses, hosts."""


@pytest.mark.parametrize("by_files", [False, True])
def test_it_fits_into_what_grid_engine_passes_on_to_a_helper(by_files: bool) -> None:
    """`qrsh` waits for ever with more on its standard input than it passes on unread."""
    carried = helpers_archive(starter_installation.starter_archive(by_files=by_files))
    assert len(carried) + ROOM_BYTES < INPUT_BYTES_MAX


def test_what_a_helper_is_sent_needs_nothing_else() -> None:
    archive = helpers_archive(starter_installation.starter_archive(by_files=True))
    sent = json.loads(zlib.decompress(base64.b85decode(archive)))
    names = {name.removesuffix(".py").replace("/", ".") for name in sent}
    names |= {name.removesuffix(".__init__") for name in names}
    for path in sorted(sent.keys() - {"starter.py", "koala_agent/starter/commands.py"}):
        for node in ast.walk(ast.parse(sent[path])):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("koala_agent"):
                is_package = node.module == "koala_agent.starter"
                modules = {f"{node.module}.{alias.name}" for alias in node.names}
                assert (modules if is_package else {node.module}) <= names, path


@pytest.mark.parametrize("by_files", [False, True])
def test_what_is_carried_is_the_same_program(by_files: bool) -> None:
    archive = starter_installation.starter_archive(by_files=by_files)
    carried = json.loads(zlib.decompress(base64.b85decode(archive)))
    package = Path(str(resources.files("koala_agent"))) / "starter"
    names = {str(path.relative_to(package)) for path in package.rglob("*.py")}
    names -= set(starter_installation.NOT_CARRIED)
    names = {
        name for name in names if by_files or not name.startswith(starter_installation.BY_FILES)
    }
    assert names == {path.partition("/starter/")[2] for path in carried if "/starter/" in path}
    for name in names:
        ours = ast.parse((package / name).read_text(encoding="utf-8"))
        theirs = ast.parse(carried[f"koala_agent/starter/{name}"])
        assert Counter(bare(theirs)) == Counter(bare(ours))


@pytest.mark.parametrize("python", [None, sys.executable])
@pytest.mark.parametrize("spoilt", ["starter", "koala_agent/starter/state_machine/barrier"])
def test_what_a_power_failure_left_of_an_installed_starter_is_replaced(
    tmp_path: Path, python: str | None, spoilt: str
) -> None:
    """Files that have their names and nothing in them."""
    place = LaunchSettings(root=tmp_path, site="here", python=python)
    command = install_starter(place)
    folder = Path(command[-1]).parent
    path = folder / f"{spoilt}{Path(command[-1]).suffix}"
    whole = path.read_bytes()
    inode = path.stat().st_ino
    assert install_starter(place) == command
    assert path.stat().st_ino == inode, "nothing is written that is there"
    path.write_bytes(b"")
    assert install_starter(place) == command
    assert len(path.read_bytes()) == len(whole)


def bare(tree: ast.Module) -> Iterator[str]:
    """Every statement that does something, and the fields of classes; not what is for a type
    checker alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            yield ast.dump(ast.Assign([node.target], node.value))
        elif ast.unparse(node) == "TYPE_CHECKING = False":
            continue
        elif isinstance(node, ast.Assign | ast.Return | ast.Call | ast.Raise | ast.AugAssign):
            yield ast.dump(node)
