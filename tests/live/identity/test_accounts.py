"""A job over two sites, one of which runs its claims as other accounts: files in, files out."""

from __future__ import annotations

import getpass
import hashlib
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.agent.accounts import BOB, a_scratch, python
from tests.harness.moments import until
from tests.live.grid import CALM, Grid, live_grid
from tests.live.test_jobs import output, run, shell

INPUT = bytes(range(256)) * 4096


@contextmanager
def a_grid(folder: Path, scratch: Path) -> Iterator[Grid]:
    """At leiden the administrator of the grid has an account; the file is at delft and leiden."""
    leiden = f"""
[accounts]
mode = "site"
map = {{ {getpass.getuser()} = "{BOB}" }}
[starter]
python = "{python()}"
scratch = "{scratch}"
"""
    with live_grid(
        folder,
        sites={"delft": 4, "leiden": 4},
        parameters=CALM,
        replicas={"near.dat": (INPUT, ("delft", "leiden")), "far.dat": (INPUT[::-1], ("delft",))},
        more={"leiden": leiden},
    ) as grid:
        yield grid


@pytest.mark.live
@pytest.mark.slow
async def test_input_and_output_get_to_a_program_of_an_account_and_back(tmp_path: Path) -> None:
    script = "id -u; sha256sum < $KOALA_INPUT; cp $KOALA_INPUT copy"
    with a_scratch() as scratch, a_grid(tmp_path, scratch) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            for name, content in (("near.dat", INPUT), ("far.dat", INPUT[::-1])):
                parts = [shell(script, site=site) for site in ("delft", "leiden")]
                more = "(outputFile=copy)"
                shown = await run(client, f"+(inputFile={name})({parts[0]})({parts[1]}{more})")
                assert shown["phase"] == "Finished", shown
                said = await output(client, shown["job"], stream="stdout")
                own, others = (said[component, 0, "stdout"].split() for component in (0, 1))
                assert int(own[0]) == 0
                assert int(others[0]) == pwd.getpwnam(BOB).pw_uid
                checksum = hashlib.sha256(content).hexdigest().encode()
                assert own[1] == others[1] == checksum
                published = grid.spool / shown["job"] / "output" / "leiden" / "copy"
                await until(published.exists)
                assert published.read_bytes() == content
            sites = {site["site"]: site["users"] for site in await client.sites()}
            assert sites == {"delft": 0, "leiden": 1}
        assert not list(scratch.iterdir())
