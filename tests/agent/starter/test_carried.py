"""The starter as a batch script carries it to machines that see nothing of ours."""

from __future__ import annotations

import ast
import base64
import json
import zlib
from importlib import resources

from koala_agent import placeholders
from koala_agent.bodies import INPUT_BYTES_MAX

ROOM_BYTES = 12_000
"""For what comes beside it: specification, addresses, hosts."""


def test_it_fits_into_what_grid_engine_passes_on_to_a_helper() -> None:
    """`qrsh` waits for ever with more on its standard input than it passes on unread."""
    carried = placeholders._archive()
    assert len(carried) + ROOM_BYTES < INPUT_BYTES_MAX


def test_what_is_carried_is_the_same_program() -> None:
    carried = json.loads(zlib.decompress(base64.b64decode(placeholders._archive())))
    package = resources.files("koala_agent") / "starter"
    names = {file.name for file in package.iterdir() if file.name.endswith(".py")}
    assert names == {path.rpartition("/")[2] for path in carried if "/starter/" in path}
    for name in names:
        ours = ast.parse((package / name).read_text(encoding="utf-8"))
        theirs = ast.parse(carried[f"koala_agent/starter/{name}"])
        assert bare(theirs) == bare(ours)


def bare(tree: ast.Module) -> list[str]:
    """Every statement that does something, in order."""
    return [
        ast.dump(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.Return | ast.Call | ast.Raise | ast.AugAssign)
    ]
