"""Read hostile files beside the configurations: grid files, events of a replay, credentials, and
the join tokens that one person hands to another.

The result is something that can be used, or an error of ours that does not show a secret.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TypeAlias

from koala.common.identity.credentials import read_credentials
from koala.common.identity.tls import JoinToken
from koala.errors import ConfigError
from koala.lab.sim.log_replay.event_files import read_events
from koala.local.grid_file import configurations, parse_grid
from tests.fuzz.configs import PIECES, spoilt_lines
from tests.fuzz.hostile_values import spoilt_text
from tests.fuzz.target import Target, require_readable
from tests.tidy.sources import ROOT

Case: TypeAlias = tuple[str, str]

SECRET = "koala_1_kept-to-oneself"
EVENTS = """[[event]]
at = 5
fail = 3
jobs = "requeue"
[[event]]
at = 9
return = 3
[[event]]
at = 12
breakpoint = "show"
"""
CREDENTIALS = f'''address = "127.0.0.1:7740"
user = "ann"
token = "{SECRET}"
ca = """
-----BEGIN CERTIFICATE-----
AAAA
-----END CERTIFICATE-----
"""
'''
TOKEN = f"koala-join|1|delft|h:7740|{SECRET}|AAAA"


def _read_grid(text: str) -> None:
    configurations(parse_grid(text, source="grid.toml", folder=Path("/nowhere")))


def _from_file(read: Callable[[Path], object]) -> Callable[[str], None]:
    def reading(text: str) -> None:
        with tempfile.NamedTemporaryFile() as file:  # for this account alone
            file.write(text.encode("utf-8", "replace"))
            file.flush()
            read(Path(file.name))

    return reading


KINDS: dict[str, tuple[str, Callable[[str], object]]] = {
    "grid": ((ROOT / "deploy" / "das.toml").read_text(encoding="utf-8"), _read_grid),
    "events": (EVENTS, _from_file(read_events)),
    "credentials": (CREDENTIALS, _from_file(read_credentials)),
    "token": (TOKEN, JoinToken.parse),
}


def a_case(random: Random) -> Case:
    kind = random.choice((*KINDS,))
    good, _ = KINDS[kind]
    if kind == "token":
        return kind, spoilt_text(random, good, ("|", "||", "\n", " ", "koala-join", "2"))
    lines = spoilt_lines(random, good)
    return kind, spoilt_text(random, lines, PIECES) if random.randrange(3) == 0 else lines


def check(case: Case) -> None:
    kind, text = case
    try:
        KINDS[kind][1](text)
    except ConfigError as error:
        refusal = str(error)
    else:
        return
    require_readable(refusal)
    assert SECRET not in refusal, refusal


TARGETS = (Target(name="side-file", make=a_case, check=check, share=0.3),)
