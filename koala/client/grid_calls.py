"""Calls of the asynchronous client about the grid: sites, costs, users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from koala.client.connection import Connection
from koala.common.wire.v1 import koala_pb2 as pb
from koala.views.records.access import (
    AuditLine,
    AuditLines,
    Enrolment,
    Enrolments,
    Group,
    Groups,
    Notifications,
    User,
    Users,
)
from koala.views.records.accounts import ClaimReport, Report
from koala.views.records.base import Moment, Records, moment_of
from koala.views.records.chart import GridTimeline
from koala.views.records.grid import DaemonInfo, Metrics, Queues, Sites, SiteStatus


class AsyncGridCalls:
    """Calls about the grid; part of `AsyncClient`."""

    def __init__(self, daemon: Connection) -> None:
        self._daemon = daemon

    async def hello(self) -> DaemonInfo:
        """Return the daemon's protocol, version and epoch, and the caller's user and role."""
        reply = await self._daemon.call("Hello", pb.HelloRequest(), pb.HelloReply)
        return DaemonInfo(
            protocol=reply.protocol,
            version=reply.version,
            epoch=reply.epoch,
            user=reply.user,
            role=reply.role,
            now=Moment.of(reply.now),
            relay=reply.relay,
            expires_at=moment_of(reply.expires_at or None),
        )

    async def sites(self) -> list[SiteStatus]:
        """List the sites."""
        return Records((await self._daemon.record(Sites, "Sites", pb.Empty())).sites)

    async def change_site(self, site: str, verb: str) -> SiteStatus:
        """Apply `drain`, `resume` or `lost`; return the changed site. Raises UnknownSiteError."""
        request = pb.SiteRequest(site=site, verb=verb)
        return await self._daemon.record(SiteStatus, "ChangeSite", request)

    async def drain(self, site: str) -> SiteStatus:
        """Stop new claims at the site; running jobs continue."""
        return await self.change_site(site, "drain")

    async def resume(self, site: str) -> SiteStatus:
        """Use the site again and reset its error count."""
        return await self.change_site(site, "resume")

    async def lost(self, site: str) -> SiteStatus:
        """Declare the site lost: the caller confirms that no program of Koala runs there."""
        return await self.change_site(site, "lost")

    async def metrics(self) -> Metrics:
        """Return the daemon's metrics."""
        return await self._daemon.record(Metrics, "Metrics", pb.Empty())

    async def queues(self) -> Queues:
        """Show the placement queues with the jobs at their heads."""
        return await self._daemon.record(Queues, "Queues", pb.Empty())

    async def grid_timeline(
        self,
        *,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        site: str = "",
    ) -> GridTimeline:
        """Return the claims over the sites in a period; without bounds in the last half hour."""
        request = pb.GridTimelineRequest(since=_seconds(since), until=_seconds(until), site=site)
        return await self._daemon.record(GridTimeline, "GridTimeline", request)

    async def report(
        self,
        by: str = "user",
        *,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        user: str = "",
        site: str = "",
    ) -> Report | ClaimReport:
        """Account for the cost of jobs, a row for each `by`: user, site, day, job or claim.

        `since` and `until` are instants, as datetimes or in seconds of the epoch, None for no
        bound. `user` and `site` restrict the report to the user's jobs and to the site.
        """
        request = pb.ReportRequest(
            by=by, since=_seconds(since), until=_seconds(until), user=user, site=site
        )
        if by == "claim":
            return await self._daemon.record(ClaimReport, "Report", request)
        return await self._daemon.record(Report, "Report", request)

    # --- sites and users --------------------------------------------------------------------------

    async def add_site(self, name: str, *, owner: str = "", ttl_s: float = 0.0) -> Enrolment:
        """Create a join token (`token`) for `koala-agent join`; also for a site that joined
        before. For operators."""
        request = pb.AddSiteRequest(name=name, owner=owner, ttl_s=ttl_s)
        return await self._daemon.record(Enrolment, "AddSite", request)

    async def revoke_site(self, name: str) -> Enrolment:
        """Close a site's link and revoke its certificates. Raises UnknownNameError."""
        return await self._daemon.record(Enrolment, "RevokeSite", pb.NameRequest(name=name))

    async def enrolments(self) -> list[Enrolment]:
        """List the added sites with the state of their certificates."""
        return Records((await self._daemon.record(Enrolments, "ListEnrolments", pb.Empty())).sites)

    async def notifications(
        self,
        *,
        mail: str | None = None,
        webhook: str | None = None,
        on: Iterable[str] = (),
        test: bool = False,
    ) -> Notifications:
        """Show how the caller is told of jobs; with `mail` or `webhook` change it, "" for none.

        `on` are events (start, end, failure, setback, expiry), none: end and expiry. `test` sends
        one now. Raises SpecError, RejectedError.
        """
        request = pb.NotificationsRequest(
            change=mail is not None or webhook is not None,
            mail=mail or "",
            webhook=webhook or "",
            on=on,
            test=test,
        )
        return await self._daemon.record(Notifications, "Notifications", request)

    async def add_user(
        self, name: str, *, role: str = "user", expires_s: float = 0.0, invited_s: float = 0.0
    ) -> User:
        """Add a user; return a `token`, shown only once. With `invited_s` it is an invitation: the
        user exchanges it for a token within this time (`renew_token`)."""
        request = pb.AddUserRequest(name=name, role=role, expires_s=expires_s, invited_s=invited_s)
        return await self._daemon.record(User, "AddUser", request)

    async def renew_token(self) -> User:
        """Exchange the caller's token, or invitation, for a new `token`; the old one ends."""
        return await self._daemon.record(User, "RenewToken", pb.Empty())

    async def set_user(
        self,
        name: str,
        *,
        role: str = "",
        expires_s: float | None = None,
        group: str | None = None,
        limits: Mapping[str, float | str] | None = None,
    ) -> User:
        """Change a user, whose token stays; what is not given stays as it is.

        `expires_s` counts from now, 0: never. `group` is that of jobs that name none. `limits` are
        `processors`, `gpus`, `jobs`, `hold_s` and `shares`; "none" takes one away. For
        administrators. Raises UnknownNameError, SpecError, RejectedError.
        """
        request = pb.SetUserRequest(
            name=name, role=role, expires_s=expires_s, group=group, limits=_texts(limits)
        )
        return await self._daemon.record(User, "SetUser", request)

    async def set_group(
        self,
        name: str,
        *,
        add: Iterable[str] = (),
        remove: Iterable[str] = (),
        limits: Mapping[str, float | str] | None = None,
    ) -> Group:
        """Add a group, or change its members and its `limits` (as in `set_user`). For
        administrators. Raises UnknownNameError, SpecError."""
        request = pb.SetGroupRequest(name=name, add=add, remove=remove, limits=_texts(limits))
        return await self._daemon.record(Group, "SetGroup", request)

    async def remove_group(self, name: str) -> Group:
        """Remove a group: its members and their jobs stay. Raises UnknownNameError."""
        return await self._daemon.record(Group, "RemoveGroup", pb.NameRequest(name=name))

    async def groups(self) -> list[Group]:
        """List the groups of the caller, all of them for operators, with what they have in use."""
        return list((await self._daemon.record(Groups, "ListGroups", pb.Empty())).groups)

    async def revoke_user(self, name: str) -> User:
        """Revoke all credentials of a user. Raises UnknownNameError."""
        return await self._daemon.record(User, "RevokeUser", pb.NameRequest(name=name))

    async def users(self) -> list[User]:
        """List the added users. For administrators."""
        return Records((await self._daemon.record(Users, "ListUsers", pb.Empty())).users)

    async def audit(self, *, last: int = 0) -> list[AuditLine]:
        """Return the newest lines of the audit log, oldest first. For administrators."""
        request = pb.AuditRequest(last=last)
        return Records((await self._daemon.record(AuditLines, "Audit", request)).audit)


def _texts(limits: Mapping[str, float | str] | None) -> dict[str, str]:
    return {name: str(value) for name, value in (limits or {}).items()}


def _seconds(instant: datetime | float | None) -> float | None:
    return instant.timestamp() if isinstance(instant, datetime) else instant
