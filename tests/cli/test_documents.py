"""docs/cli.md and docs/configuration.md say what the code does; so do the examples in deploy."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

import koala.daemon.config as daemon
import koala_agent.config_tables as agent
from koala.cli.lazy_group import LazyGroup
from koala.cli.main import application
from koala.common.runtime.settings_file import type_at
from koala_agent.config import read_config as read_agent
from koala_agent.lrm.batch_system import DEFAULT, find_system, known_systems
from tests.tidy.sources import ROOT

CONFIGURATION = ROOT / "docs" / "configuration.md"
COMMAND_LINE = ROOT / "docs" / "cli.md"
SECTION = re.compile(
    r"^### `\[([^\]]+)\]`( of the agent)?[^\n]*\n(.*?)(?=^##|\Z)", re.DOTALL | re.MULTILINE
)
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| .+ \|$", re.MULTILINE)
SWITCHED_OFF = re.compile(r"^# (?=\[[a-z_]+\]|[a-z_]+ = )", re.MULTILINE)

MANAGERS = msgspec.defstruct(
    "Managers",
    [
        (field.name, field.type, msgspec.field(default=field.default))
        if field.default_factory is msgspec.NODEFAULT
        else (field.name, field.type, msgspec.field(default_factory=field.default_factory))
        for field in {
            field.name: field
            for system in known_systems()
            for field in msgspec.structs.fields(system.settings)
        }.values()
    ],
    kw_only=True,
)
"""The keys of all local managers, which the document has in one section."""

AGENT_TABLES: dict[str, type[msgspec.Struct]] = {
    field.name: type_at(agent.Config, field.name) for field in msgspec.structs.fields(agent.Config)
}
TABLES: dict[str, type[msgspec.Struct]] = {
    "daemon": daemon.DaemonTable,
    "policies": daemon.PoliciesTable,
    "sites.NAME": daemon.SiteTable,
    "links": daemon.LinksTable,
    "relay": daemon.RelayTable,
    "bus": daemon.BusTable,
    "journal": daemon.JournalTable,
    **AGENT_TABLES,
    "lrm": MANAGERS,
    "metrics": daemon.DaemonMetricsTable,
    "traces": daemon.TracesTable,
    "metrics of the agent": AGENT_TABLES["metrics"],
}


def described() -> dict[str, dict[str, str]]:
    """The tables of the document: for each key its default as written."""
    text = CONFIGURATION.read_text(encoding="utf-8")
    return {name + whose: dict(ROW.findall(body)) for name, whose, body in SECTION.findall(text)}


def written(default: Any) -> str:
    """A default as the document writes it."""
    match default:
        case msgspec.NODEFAULT:
            return "required"
        case None | "" | ():
            return "none"
        case str():
            return f"`{default}`"
        case bool():
            return str(default).lower()
        case float() if math.isfinite(default):
            return f"{default:g}"
        case _:
            return str(default) or "none"


@pytest.mark.parametrize("name", TABLES)
def test_every_key_is_described_with_its_default(name: str) -> None:
    expected = {
        field.name: "none"
        if field.default_factory is not msgspec.NODEFAULT
        else written(field.default)
        for field in msgspec.structs.fields(TABLES[name])
    }
    assert described()[name] == expected


def test_no_table_is_forgotten_and_none_is_made_up() -> None:
    known = {field.name for field in msgspec.structs.fields(daemon.File)}
    known |= {field.name for field in msgspec.structs.fields(agent.Config)}
    named = {name.removesuffix(" of the agent") for name in described()}
    assert named == {name.replace("sites", "sites.NAME") for name in known}


@pytest.mark.parametrize("name", ["daemon.toml", "agent.toml"])
def test_what_an_example_has_switched_off_is_right_when_switched_on(
    name: str, tmp_path: Path
) -> None:
    is_daemon = name == "daemon.toml"
    template = ROOT / "deploy" / name if is_daemon else find_system(DEFAULT).template
    text = template.read_text(encoding="utf-8")
    path = tmp_path / name
    path.write_text(SWITCHED_OFF.sub("", text), encoding="utf-8")
    assert path.read_text(encoding="utf-8") != text
    if is_daemon:
        assert daemon.read_config(path).bus_url
    else:
        assert read_agent(path).files.serve


def command_lines() -> list[tuple[str, ...]]:
    """Every command, and those of the groups."""
    lines = [*_inner((), application)]
    assert ("site", "lost") in lines
    assert ("admin", "authority", "show") in lines
    return lines


def _inner(path: tuple[str, ...], group: LazyGroup) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        yield (*path, name)
        command = group.get_command(context, name)
        if isinstance(command, LazyGroup):
            yield from _inner((*path, name), command)


def test_the_reference_shows_the_help_of_every_command() -> None:
    """After a change: `python -m tests.cli.reference` rewrites the document."""
    from tests.cli.reference import reference

    assert COMMAND_LINE.read_text(encoding="utf-8") == reference(command_lines())
