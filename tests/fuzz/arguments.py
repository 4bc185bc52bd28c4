"""Words of the command line: an exit status that is documented and words for a person, never a
traceback. Nobody listens at the address that they name."""

from __future__ import annotations

import contextlib
import io
from random import Random
from typing import TypeAlias

from koala.cli.main import main
from tests.fuzz.hostile_values import number, text
from tests.fuzz.target import Target

Case: TypeAlias = tuple[str, ...]

COMMANDS = (
    "list", "show", "why", "timeline", "cancel", "sites", "drain", "resume", "files", "metrics",
    "report", "audit", "rsl", "submit", "replay",
)  # fmt: skip
OPTIONS = (
    "--json", "--since", "--until", "--by", "--user", "--site", "--csv", "--last", "--owner",
    "--phase", "-D", "--eval", "--dry-run", "--key", "--help", "--debug", "-h", "--all",
    "--no-wait", "--queue", "--with", "-c", "--", "-", "--x", "-1",
)  # fmt: skip
VALUES = ("j1", "delft", "user", "2026-11-21", "A=b", "/dev/null", "/nowhere", "tests", "1")


def a_case(random: Random) -> Case:
    words = [random.choice(COMMANDS)]
    for _ in range(random.randrange(5)):
        match random.randrange(4):
            case 0:
                words.append(random.choice(OPTIONS))
            case 1:
                words.append(random.choice(VALUES))
            case 2:
                words.append(str(number(random)))
            case _:
                words.append(text(random))
    # As a shell gives them: bytes that are no UTF-8 come as halves of surrogate pairs, NUL never.
    return tuple(word.replace("\0", "") for word in words)


def check(case: Case) -> None:
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.chdir("/"),
    ):
        status = main([*case, "--address", "127.0.0.1:1"] if case[0] not in PLAIN else [*case])
    said = err.getvalue()
    assert status in (0, 1, 2, 3), f"exit status {status}"
    assert "Traceback" not in said, said
    assert status == 0 or said.strip() or out.getvalue().strip(), "a failure without a word"
    if not said.startswith("Usage:"):  # which repeats the user's own words
        wrong = {c for c in said if not c.isprintable() and c not in "\n "}
        assert not wrong, f"{wrong} on standard error: {said[:300]!r}"


PLAIN = ("rsl", "replay")
TARGETS = (Target(name="argument", make=a_case, check=check, share=0.05),)
