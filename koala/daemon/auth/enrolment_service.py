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
from koala.common.wire.v1.koala_pb2 import AddSiteRequest, AddUserRequest
from koala.core.model.values import SiteName
from koala.daemon.auth.access_rules import Role, caller_of_call
from koala.daemon.auth.audit import Audit
from koala.daemon.auth.certificate_authority import CertificateAuthority
from koala.daemon.auth.credential_store import CredentialStore, enrolment_of, user_of
from koala.errors import ExhaustedError, KoalaError, RejectedError, SpecError
from koala.views.records.access import AuditLines, Enrolment, Enrolments, User, Users

EXPIRES_S_MAX = 10 * 365 * 86_400.0
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
        disconnect: Callable[[SiteName, str], None],
    ) -> None:
        """`address` is that of the daemon, for join tokens."""
        self._address = address
        self._authority = authority
        self._known = credentials
        self._audit = audit
        self._disconnect = disconnect

    def add_site(self, request: AddSiteRequest) -> Enrolment:
        """Add a site and return its join token. Raises SpecError, RejectedError."""
        secret = self._credentials.add_site(
            request.name, owner=request.owner, by=caller_of_call().name, ttl_s=request.ttl_s
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
        by = caller_of_call().name
        record = self._credentials.revoke_site(name)
        log.warning("site.revoked", site=name, by=by)
        self._disconnect(SiteName(name), f"the certificate of {name} was revoked by {by}")
        return enrolment_of(record)

    def sites(self) -> Enrolments:
        """Return every site that was ever added."""
        known = self._credentials.sites
        return Enrolments(sites=tuple(enrolment_of(known[name]) for name in sorted(known)))

    def add_user(self, request: AddUserRequest) -> User:
        """Add a user and return the token, shown only once. Raises SpecError, RejectedError."""
        role, by = _role(request.role), caller_of_call().name
        if not 0 <= request.expires_s <= EXPIRES_S_MAX:
            allowed = f"0 to {EXPIRES_S_MAX:g} (0: until it is revoked)"
            raise SpecError(f"expires = {request.expires_s:g} s (expected {allowed})")
        token = self._credentials.add_user(request.name, role, by=by, expires_s=request.expires_s)
        assert self._authority is not None
        log.info("user.added", user=request.name, role=role.value, by=by)
        ca = self._authority.certificate.decode()
        return replace(user_of(self._credentials.users[request.name]), token=token, ca=ca)

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


def _role(text: str) -> Role:
    try:
        return Role(text or Role.USER)
    except ValueError as error:
        message = f"role = {text[:40]!r} (expected one of {', '.join(Role)})"
        raise SpecError(message) from error
