"""Groups of commands that are imported when they are called, listed by section in help texts."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import click

from koala.cli.help_text import HelpContext
from koala.common.runtime.software import DISTRIBUTION

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "koala.commands"

CALLED = "called"
"""Key of the context's object: the path of the called command, which begins its messages."""


class LazyGroup(click.Group):
    """Group whose commands are given by their places, in sections.

    A place is `module:attribute`, or `@NAME` for a command of another package: an entry point of
    this distribution in the group `koala.commands`. Commands in `hidden` can be called, too: other
    spellings of listed commands.
    """

    context_class = HelpContext

    def __init__(
        self,
        name: str,
        sections: Mapping[str, Mapping[str, str]],
        *,
        hidden: Mapping[str, str] | None = None,
        **attributes: Any,  # noqa: ANN401 - those of click
    ) -> None:
        super().__init__(name, **attributes)
        self.sections = sections
        self.places = {
            name: place for section in sections.values() for name, place in section.items()
        }
        self._hidden = hidden or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order of the help text."""
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is none of that name."""
        place = self.places.get(cmd_name) or self._hidden.get(cmd_name)
        if place is None:
            return None
        command: click.Command
        if place.startswith("@"):
            command = _commands_of_others()[place[1:]].load()
        else:
            module, _, attribute = place.partition(":")
            command = getattr(importlib.import_module(module), attribute)
        command.context_class = HelpContext
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the called command and note its path, which begins its messages.

        The error about an unknown one names the nearest.
        """
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            import difflib

            near = difflib.get_close_matches(args[0], [*self.places, *self._hidden], n=1)
            if near:
                ctx.fail(f"No such command {args[0]!r}; did you mean {near[0]}?")
        name, command, rest = super().resolve_command(ctx, args)
        ctx.ensure_object(dict)[CALLED] = f"{ctx.command_path} {name}"
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a line for each command."""
        with formatter.section("Commands"):
            formatter.write_dl(self.lines(ctx, self.places, formatter.width))

    def lines(self, ctx: click.Context, names: Iterable[str], width: int) -> list[tuple[str, str]]:
        """Return the names and short descriptions of commands."""
        commands = ((name, self.get_command(ctx, name)) for name in names)
        return [(name, one.get_short_help_str(width)) for name, one in commands if one]


@lru_cache(maxsize=1)
def _commands_of_others() -> Mapping[str, EntryPoint]:
    """Read the entry points of this distribution alone: a look at all packages takes long."""
    from importlib.metadata import distribution

    points = distribution(DISTRIBUTION).entry_points.select(group=GROUP)
    return {point.name: point for point in points}
