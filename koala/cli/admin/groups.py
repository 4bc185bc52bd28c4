"""Commands for groups of users, and limits of users and groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from koala.cli.arguments import daemon_options, examples, offered, option
from koala.cli.lazy_group import LazyGroup
from koala.cli.output import print_answer, print_table, screen
from koala.cli.requests import ask

if TYPE_CHECKING:
    from koala.views.records.access import Group

HERE = "koala.cli.admin.groups"
F = TypeVar("F", bound=Callable[..., Any])

group = LazyGroup(
    "group",
    {"": {"set": f"{HERE}:set_group", "list": f"{HERE}:list_groups", "remove": f"{HERE}:remove"}},
    help="Add, change, list and remove groups of users, and limit what they have at once.",
    no_args_is_help=True,
)
name_argument = click.argument("name", help="The group's name.", **offered(names_of="group"))
LIMITS = {
    "processors": "Processors of its placed jobs, all together; none: no limit.",
    "gpus": "GPUs of its placed jobs; none: no limit.",
    "jobs": "Jobs that may be placed at once; none: no limit.",
    "hold_s": "Processor-seconds that claims may hold before their start, in 24 hours; none: no"
    " limit.",
    "shares": "Weight under the queueing policy fair-share; none: 1.",
}
"""Help of the option of each limit."""


def limit_options(command: F) -> F:
    """Decorate a command with an option for each limit, which it gets by name."""
    for name, text in reversed(LIMITS.items()):
        flag = f"--{name.replace('_s', '-seconds')}"
        command = option(flag, name, metavar="NUMBER", help=text, unset="unchanged")(command)
    return command


def limits_of(options: dict[str, Any]) -> dict[str, str]:
    """Return the limits that were given on the command line."""
    return {name: options[name] for name in LIMITS if options[name] is not None}


@examples(
    "koala group set physics --add ann --add bob --processors 64 --jobs 10",
    "koala group set physics --remove bob --processors none",
)
@click.command("set")
@name_argument
@option("--add", multiple=True, metavar="USER", help="Make this user a member.")
@option("--remove", multiple=True, metavar="USER", help="End the membership of this user.")
@limit_options
@daemon_options
def set_group(
    *, name: str, add: Sequence[str], remove: Sequence[str], **limits: str | None
) -> None:
    """Add a group, or change its members and limits.

    Jobs of its members count for their first group, unless they name another one (`group` in a
    description, `koala submit --group`). A job that would exceed a limit of its user or group
    waits, and `koala why` says so. For administrators.
    """
    from koala.cli.render.documents import GROUPS
    from koala.cli.render.table import table

    changes = limits_of(limits)
    found = ask(lambda client: client.set_group(name, add=add, remove=remove, limits=changes))
    print_answer(found, lambda: table(GROUPS, [found], screen()))


@click.command("list")
@daemon_options
def list_groups() -> None:
    """List your groups, or all of them for operators, with what their jobs have now."""
    from koala.cli.render.documents import GROUPS

    groups: list[Group] = ask(lambda client: client.groups())
    print_table("groups", GROUPS, groups)


@click.command
@name_argument
@daemon_options
def remove(*, name: str) -> None:
    """Remove a group. Its members and their jobs stay. For administrators."""
    found = ask(lambda client: client.remove_group(name))
    print_answer(found, lambda: f"{name}  removed")
