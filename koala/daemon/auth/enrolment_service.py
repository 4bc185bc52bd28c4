"""Enrolment service for sites, and management of sites and users by operators.

A private key never leaves the machine that made it: requests carry only its public part. A site
joins by the secret of its join token, and renews by its current certificate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

import grpc
from msgspec.structs import replace

from koala.common.identity.tls import JoinToken
from koala.common.runtime.clock import unix_now
from koala.common.runtime.structured_log import get_logger
from koala.common.runtime.token_bucket import RateLimits
from koala.common.wire.v1 import identity_pb2 as pb
from koala.common.wire.v1.identity_pb2_grpc import EnrolmentServicer
from koala.common.wire.v1.koala_pb2 import (
    AddSiteRequest,
    AddUserRequest,
    SetGroupRequest,
    SetUserRequest,
)
from koala.core.model.values import SiteName
from koala.daemon.auth.access_rules import Role, caller_of_call
from koala.daemon.auth.audit import Audit
from koala.daemon.auth.certificate_authority import CertificateAuthority
from koala.daemon.auth.credential_store import (
    JOIN_S_MAX,
    CredentialStore,
    enrolment_of,
    user_of,
)
from koala.daemon.auth.groups import GroupRecord
from koala.errors import (
    DeniedError,
    ExhaustedError,
    KoalaError,
    RejectedError,
    SpecError,
    UnknownNameError,
)
from koala.views.records.access import AuditLines, Enrolment, Enrolments, User, Users

EXPIRES_S_MAX = 10 * 365 * 86_400.0
OWN_SITES_MAX = 20
"""Sites that a user may add for itself."""
RENEWALS_AT_ONCE = 10
RENEWALS_PER_S = 0.1
"""Rate limit of one site's renewals: each is signed and synced to disk on the event loop."""

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
log = get_logger()


class EnrolmentService(EnrolmentServicer):
    """Calls of sites. `port` is the one for callers with a certificate."""

    def __init__(
        self,
        authority: CertificateAuthority,
        credentials: CredentialStore,
        *,
        port: int,
        lifetime_s: float,
    ) -> None:
        self._port = port
        self._authority = authority
        self._credentials = credentials
        self._lifetime_s = lifetime_s
        self._renewals = RateLimits[str](RENEWALS_PER_S, burst=RENEWALS_AT_ONCE)

    async def Where(self, _: pb.WhereRequest, __: Context) -> pb.WhereReply:  # noqa: N802 - gRPC's
        """Return the port for callers with a certificate."""
        return pb.WhereReply(port=self._port, now=unix_now())

    async def Join(self, request: pb.JoinRequest, context: Context) -> pb.Issued:  # noqa: N802
        """Issue a first certificate for the secret of a join token, once."""
        try:
            self._credentials.check_join(request.site, request.secret)
            signed = self._authority.sign_site(
                request.site, request.request, lifetime_s=self._lifetime_s
            )
            self._credentials.enrol(
                request.site, serial=signed.serial, expires_at=signed.expires_at
            )
        except KoalaError as error:
            log.debug(  # unauthenticated; the audit log has it, rate-limited
                "site.not_joined",
                site=request.site[:64],
                peer=context.peer(),
                reason=str(error),
            )
            raise
        log.info("site.joined", site=request.site, peer=context.peer(), certificate=signed.serial)
        return self._issued(signed.pem)

    async def Renew(self, request: pb.RenewRequest, context: Context) -> pb.Issued:  # noqa: N802
        """Issue a further certificate for the site that calls."""
        site = caller_of_call().name
        self._consume_renewal_token(site)
        signed = self._authority.sign_site(site, request.request, lifetime_s=self._lifetime_s)
        self._credentials.add_renewal(site, signed.serial, signed.expires_at)
        log.info("site.renewed", site=site, peer=context.peer(), certificate=signed.serial)
        return self._issued(signed.pem)

    def _consume_renewal_token(self, site: str) -> None:
        """Consume a token of the rate limit. Raises ExhaustedError when a site renews too often."""
        now = asyncio.get_running_loop().time()
        bucket = self._renewals.of(site, now)
        wait_s = bucket.wait_s(now)
        if wait_s > 0:
            raise ExhaustedError(
                f"{site} renews its certificate again and again (expected once in"
                f" {1 / RENEWALS_PER_S:g} s in the long run); try again in {wait_s:.2g} s",
                retry_after_s=wait_s,
            )
        bucket.consume(1)

    def _issued(self, pem: bytes) -> pb.Issued:
        authority = self._authority.certificate.decode()
        return pb.Issued(certificate=pem.decode(), authority=authority)


class Registrar:
    """Management of sites and users. `disconnect` ends the session of a site, if it has one."""

    def __init__(
        self,
        authority: CertificateAuthority | None,
        credentials: CredentialStore | None,
        audit: Audit,
        *,
        address: str,
        given_address: str,
        disconnect: Callable[[SiteName, str], None],
    ) -> None:
        """`address` is that of the daemon, for join tokens; credentials have the one that clients
        dial. The configuration's `given_address` is for both, if it is not empty."""
        self._address = given_address or address
        self._given_address = given_address or None
        self._authority = authority
        self._known = credentials
        self._audit = audit
        self._disconnect = disconnect

    def add_site(self, request: AddSiteRequest) -> Enrolment:
        """Add a site and return its join token. A user adds sites that serve the user alone.

        Raises SpecError, RejectedError, DeniedError.
        """
        caller = caller_of_call()
        owner = request.owner or ("" if caller.sees("") else caller.name)
        known = self._credentials.sites.get(request.name)
        if not (caller.sees(owner) and (known is None or caller.sees(known.owner))):
            raise DeniedError(
                f"{caller.name} has the role user: to add site {request.name[:64]!r} needs operator"
                " (expected a new site that serves this user alone)"
            )
        own = [site for site in self._credentials.sites.values() if site.owner == owner != ""]
        if not caller.sees("") and known is None and len(own) >= OWN_SITES_MAX:
            raise RejectedError(
                f"{caller.name} has {len(own)} sites (expected at most {OWN_SITES_MAX} of a user;"
                " an operator adds more)"
            )
        secret = self._credentials.add_site(
            request.name, owner=owner, by=caller.name, ttl_s=request.ttl_s
        )
        assert self._authority is not None
        token = JoinToken(
            site=request.name,
            address=self._address,
            secret=secret,
            authority=self._authority.certificate,
        )
        return replace(enrolment_of(self._credentials.sites[request.name]), token=token.text())

    def revoke_site(self, name: str) -> Enrolment:
        """Revoke a site's certificates and end its session. Raises UnknownNameError."""
        caller, known = caller_of_call(), self._credentials.sites.get(name)
        if known is None or not caller.sees(known.owner):
            raise UnknownNameError(f"no site {name[:64]!r} was ever added")
        by, record = caller.name, self._credentials.revoke_site(name)
        log.warning("site.revoked", site=name, by=by)
        self._disconnect(SiteName(name), f"the certificate of {name} was revoked by {by}")
        return enrolment_of(record)

    def sites(self) -> Enrolments:
        """Return every site that was ever added and that the caller may change."""
        known, caller = self._credentials.sites, caller_of_call()
        seen = [known[name] for name in sorted(known) if caller.sees(known[name].owner)]
        return Enrolments(sites=tuple(map(enrolment_of, seen)))

    def add_user(self, request: AddUserRequest) -> User:
        """Add or invite a user and return the token, shown only once. Raises SpecError,
        RejectedError."""
        role, by = _role(request.role), caller_of_call().name
        _check_expiry(request.expires_s)
        if not 0 <= request.invited_s <= JOIN_S_MAX:
            raise SpecError(f"ttl = {request.invited_s:g} s (expected 0 to {JOIN_S_MAX:g})")
        token = self._credentials.add_user(
            request.name, role, by=by, expires_s=request.expires_s, invited_s=request.invited_s
        )
        log.info("user.added", user=request.name, role=role.value, by=by)
        return self._with_token(request.name, token)

    def renew_token(self) -> User:
        """Exchange the caller's token, or its invitation, for a new token. Raises RejectedError."""
        name = caller_of_call().name
        token = self._credentials.renew_token(name)
        log.info("user.renewed", user=name)
        return self._with_token(name, token)

    def _with_token(self, name: str, token: str) -> User:
        assert self._authority is not None
        ca = self._authority.certificate.decode()
        user = user_of(self._credentials.users[name])
        return replace(user, token=token, ca=ca, address=self._given_address)

    def revoke_user(self, name: str) -> User:
        """Revoke a user's credentials. Raises UnknownNameError, SpecError for the last
        administrator."""
        record = self._credentials.revoke_user(name)
        log.warning("user.revoked", user=name, by=caller_of_call().name)
        return user_of(record)

    def users(self) -> Users:
        """Return every user that was ever added."""
        users = self._credentials.users
        return Users(users=tuple(user_of(users[name]) for name in sorted(users)))

    def set_user(self, request: SetUserRequest) -> User:
        """Change a user, whose token stays. Raises UnknownNameError, SpecError, RejectedError."""
        expires_s = request.expires_s if request.HasField("expires_s") else None
        _check_expiry(expires_s or 0.0)
        record = self._credentials.set_user(
            request.name,
            role=_role(request.role) if request.role else None,
            expires_s=expires_s,
            group=request.group if request.HasField("group") else None,
            limits=request.limits,
        )
        log.info("user.changed", user=request.name, by=caller_of_call().name)
        return user_of(record)

    def set_group(self, request: SetGroupRequest) -> GroupRecord:
        """Add or change a group. Raises SpecError, UnknownNameError."""
        by = caller_of_call().name
        record = self._credentials.set_group(
            request.name, by=by, add=request.add, remove=request.remove, limits=request.limits
        )
        log.info("group.changed", group=request.name, by=by, members=len(record.members))
        return record

    def remove_group(self, name: str) -> GroupRecord:
        """Remove a group. Raises UnknownNameError."""
        record = self._credentials.remove_group(name)
        log.info("group.removed", group=name, by=caller_of_call().name)
        return record

    def groups(self) -> list[GroupRecord]:
        """Return the groups that the caller sees: its own, all for operators. None in plain
        text."""
        caller = caller_of_call()
        known = {} if self._known is None else self._known.groups
        seen = [
            name for name in sorted(known) if caller.sees("") or caller.name in known[name].members
        ]
        return [known[name] for name in seen]

    async def audit(self, last: int) -> AuditLines:
        """Return the newest lines of the audit log, oldest first."""
        return AuditLines(audit=tuple(await asyncio.to_thread(self._audit.last, last)))

    @property
    def _credentials(self) -> CredentialStore:
        if self._known is None:
            raise RejectedError(
                "this daemon speaks plain text (daemon.plain = true): it knows neither sites nor"
                " users, and believes everybody"
            )
        return self._known


def _check_expiry(expires_s: float) -> None:
    """Check the lifetime of a token. Raises SpecError."""
    if not 0 <= expires_s <= EXPIRES_S_MAX:
        allowed = f"0 to {EXPIRES_S_MAX:g}; 0: until it is revoked"
        raise SpecError(f"expires = {expires_s:g} s (expected {allowed})")


def _role(text: str) -> Role:
    try:
        return Role(text or Role.USER)
    except ValueError as error:
        message = f"role = {text[:40]!r} (expected one of {', '.join(Role)})"
        raise SpecError(message) from error
