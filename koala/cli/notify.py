"""`koala notify`: how the caller is told of its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from koala.cli.arguments import OneOf, daemon_options, examples, option
from koala.cli.output import print_answer
from koala.cli.requests import ask
from koala.errors import SpecError

if TYPE_CHECKING:
    from koala.client import AsyncClient
    from koala.views.records.access import Notifications

EVENTS = ("start", "end", "failure", "setback", "expiry")
NONE = "none"


@examples(
    "koala notify",
    "koala notify --mail ann@example.org --on failure --on expiry --test",
    "koala notify --webhook https://hooks.example.org/koala",
    "koala notify --mail none",
)
@click.command
@option("--mail", metavar="ADDRESS", help="Tell by mail; none: no more.", unset="unchanged")
@option("--webhook", metavar="URL", help="Post to this URL; none: no more.", unset="unchanged")
@option(
    "--on", multiple=True, type=OneOf(EVENTS),
    help="Events, with --mail or --webhook. setback: the job goes back to its queue; expiry: your"
    " credentials expire in a week.", unset="end and expiry",
)  # fmt: skip
@option("--test", is_flag=True, help="Send a notification now.")
@daemon_options
def notify(*, mail: str | None, webhook: str | None, on: Sequence[str], test: bool) -> None:
    """Show or change how you are told of your jobs.

    It shows, too, what could not be delivered yet. `notify` in a description is for one job, and
    replaces these receivers. Webhooks are signed with the key that is shown.
    """
    from koala.cli.render.documents import notifications_text

    if on and mail is None and webhook is None:
        raise SpecError("--on without --mail or --webhook (expected one of them, too)")

    async def request(client: AsyncClient) -> Notifications:
        known = await client.notifications()
        if mail is None and webhook is None:
            return await client.notifications(test=True) if test else known
        return await client.notifications(
            mail=known.mail if mail is None else _or_none(mail),
            webhook=known.webhook if webhook is None else _or_none(webhook),
            on=on,
            test=test,
        )

    found = ask(request)
    print_answer(found, lambda: notifications_text(found))


def _or_none(text: str) -> str:
    return "" if text == NONE else text
