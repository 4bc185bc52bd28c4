"""Groups of users and the limits of both: stored beside the credentials, enforced by the core."""

from __future__ import annotations

from dataclasses import dataclass

from koala.core.allowances import usage_of
from koala.core.model.allowances import group_payer
from koala.core.model.events import AllowancesSet
from koala.core.state import State
from koala.daemon.auth.credential_store import CredentialStore, limits_of
from koala.daemon.auth.groups import GroupRecord
from koala.daemon.loop.event_loop import EventLoop
from koala.daemon.loop.group_commit import BatchContext
from koala.errors import RejectedError
from koala.views.records import access
from koala.views.records.base import Moment


@dataclass(frozen=True, kw_only=True)
class GroupService:
    """Documents of groups, and the way of limits to the core. In plain text there are none."""

    event_loop: EventLoop
    credentials: CredentialStore | None

    async def publish(self) -> None:
        """Tell the core the limits as they are stored, if it has others."""

        def emit(batch: BatchContext) -> None:
            stored = () if self.credentials is None else self.credentials.allowances()
            if dict(stored) != batch.scheduler.allowances:
                batch.emit(AllowancesSet(allowances=stored))

        await self.event_loop.ask(emit)

    async def changed(self, group: GroupRecord) -> access.Group:
        """Tell the core the limits, and return the document of the group that changed."""
        await self.publish()
        return (await self.documents([group])).groups[0]

    async def documents(self, groups: list[GroupRecord]) -> access.Groups:
        """Return the documents of groups, with what their jobs have now."""
        shown = await self.event_loop.ask(
            lambda batch: tuple([_document(batch.scheduler, group) for group in groups])
        )
        return access.Groups(groups=shown)

    def group_of_job(self, user: str, wanted: str) -> str:
        """Return the group that a job of this user counts for. Raises RejectedError."""
        if self.credentials is not None:
            return self.credentials.group_of_job(user, wanted)
        if wanted:
            raise RejectedError(f"group {wanted[:80]!r}: a daemon in plain text has no groups")
        return ""


def _document(state: State, group: GroupRecord) -> access.Group:
    payer = group_payer(group.name)
    usage, budget = usage_of(state, payer), state.payer_budgets.get(payer)
    return access.Group(
        group=group.name,
        members=group.members,
        limits=limits_of(group.limits),
        jobs=usage.jobs,
        processors=usage.processors,
        gpus=usage.gpus,
        held_s=0.0 if budget is None else budget.spent_s,
        by=group.by,
        added_at=Moment.of(group.added_at),
    )
