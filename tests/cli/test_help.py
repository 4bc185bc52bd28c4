"""Help texts of all commands: what a stranger must be able to read there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from koala.cli.arguments import Number
from koala.cli.main import application
from koala_agent.main import COMMANDS as AGENT_COMMANDS
from tests.cli.command import koala_here
from tests.cli.reference import agent_help
from tests.cli.test_documents import command_lines

NARROW, WIDE = 80, 10_000
SILENT = {"TEXT", "FLOAT", "INTEGER", "VALUE", "WORD", "K", "T"}
"""Metavars that say nothing of the value."""
EXAMPLE = re.compile(r"^    (koala .+)$", re.MULTILINE)


def command_of(words: tuple[str, ...]) -> click.Command:
    """The command of these words."""
    command: click.Command = application
    for word in words:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None, words
        command = found
    return command


def options() -> Iterator[tuple[str, click.Option, str]]:
    """Every option that takes a value, with the command's name and the metavar."""
    for words in ((), *command_lines()):
        command = command_of(words)
        context = click.Context(command)
        for one in command.params:
            if isinstance(one, click.Option) and not one.is_flag:
                name = f"koala {' '.join(words)} {one.opts[-1]}"
                yield name, one, one.make_metavar(context)


def test_every_metavar_says_something() -> None:
    assert [name for name, _, metavar in options() if metavar in SILENT] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("simulate", "trace", "x", "--overrun"),
            "--overrun x (expected one of raise, kill, extend",
        ),
        (("simulate", "sq", "--mapping"), "--mapping x (expected one of least, fit, random"),
        (("simulate", "deadlines", "--killed"), "--killed x (expected one of lost, requeue"),
        (("logs", "j1", "--stream"), "--stream x (expected one of stdout, stderr, both"),
        (("admin", "report", "--by"), "--by x (expected one of user, group, site, day, job, claim"),
        (("site", "connect", "host", "--agent"), "--agent x (expected one of here, there"),
        (
            ("reproduce",),
            "PAPER x (expected one of koala, multiqueue, deadlines, hints, sq, malleable",
        ),
        (("simulate", "workload"), "MODEL x (expected one of lublin, das"),
        (("simulate", "sq", "--beta"), "--beta 'x' (expected a number)"),
        (("list", "--last"), "--last 'x' (expected a whole number)"),
        (("site", "connect", "host", "--set"), "--set 'x' (expected KEY=VALUE, as in partition="),
        (("site", "connect", "host", "--tunnel"), "--tunnel 'x' (expected a whole number)"),
        (("init",), "KIND x (expected one of job, daemon, site-mode"),
    ],
)
def test_a_wrong_word_is_named_with_what_is_allowed(words: tuple[str, ...], said: str) -> None:
    run = koala_here(*words, "x")
    assert run.returncode == 2
    assert run.stdout == ""
    path = " ".join(word for word in words if not word.startswith("-"))
    assert run.stderr.startswith(f"koala {path.split(' x')[0].split(' j1')[0].split(' host')[0]}: ")
    assert said in run.stderr


def test_defaults_and_bounds_are_told() -> None:
    for name, one, _ in options():
        text = one.help or ""
        if one.default not in (None, "", ()) and isinstance(one.default, str | int | float):
            assert "default: " in text, name
        assert one.type not in (click.INT, click.FLOAT), name
        if isinstance(one.type, Number):
            assert str(one.type.bounds), name
            assert str(one.type.bounds) in text.partition("  [")[2], name
        assert text.count("[default") <= 1, name
        before = text.partition("  [")[0].lower()
        assert "default: " not in before, name
        assert not one.multiple or "may be repeated]" in text, name


def test_the_agent_lists_its_commands() -> None:
    listed = re.findall(r"^  (\w+) +\w", agent_help().partition("other commands")[2], re.MULTILINE)
    assert {*listed} >= {*AGENT_COMMANDS}


@pytest.mark.parametrize("words", command_lines(), ids=" ".join)
def test_examples_call_the_command_and_are_parsed(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tools").mkdir()  # of `koala run`, which looks whether it is there
    monkeypatch.chdir(tmp_path)
    shown = koala_here(*words, "--help", COLUMNS=str(WIDE)).stdout
    for line in EXAMPLE.findall(shown):
        given = shlex.split(line.partition(" > ")[0])
        assert given[1 : 1 + len(words)] == [*words], line
        command = command_of(words)
        with command.make_context("koala", given[1 + len(words) :]):
            pass
