"""gRPC interceptor: checks the protocol version, authenticates, authorizes and audits every call.

This is the only place that authenticates callers. It sets the `Caller` of the task that answers
the call, and service methods rely on that. It also turns errors into gRPC statuses.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

import grpc

from koala.common.identity.tls import site_of_uri
from koala.common.protocol.versions import PROTOCOL
from koala.common.runtime.clock import unix_now
from koala.common.runtime.structured_log import get_logger
from koala.common.wire.interceptors import Context, Handler, behaviour_of, handler_of
from koala.common.wire.status import (
    MESSAGE_MAX,
    PROTOCOL_KEY,
    TOKEN_KEY,
    TOKEN_SCHEME,
    USER_KEY,
    to_status,
)
from koala.daemon.auth.access_rules import (
    NOBODY,
    RENEW_TOKEN,
    RULES,
    Caller,
    CallerKind,
    Role,
    Rule,
    set_caller,
)
from koala.daemon.auth.audit import Audit
from koala.daemon.auth.certificate_authority import Certificate, read_certificate
from koala.daemon.auth.credential_store import CredentialStore
from koala.daemon.quotas import FairQueue
from koala.errors import (
    DeniedError,
    ExhaustedError,
    KoalaError,
    RejectedError,
    UnauthenticatedError,
)


class OpenStreams:
    """Time limits of the open streams, each with the check of its caller's credentials."""

    def __init__(self) -> None:
        self._checks: dict[asyncio.Timeout, Callable[[], None]] = {}

    @contextmanager
    def opened(self, limit: asyncio.Timeout, authenticate: Callable[[], None]) -> Iterator[None]:
        """Count a stream as open inside the block. `authenticate` raises KoalaError."""
        self._checks[limit] = authenticate
        try:
            yield
        finally:
            self._checks.pop(limit, None)

    def recheck(self) -> None:
        """End the streams whose credentials are no longer valid after a change of credentials."""
        for limit, authenticate in tuple(self._checks.items()):
            try:
                authenticate()
            except KoalaError:
                del self._checks[limit]
                if not limit.expired():
                    limit.reschedule(asyncio.get_running_loop().time())


_PACKAGE = "/koala.wire.v1."
_CLIENTS = "Koala/"
USER_MAX = 256
TOKEN_MAX = 256
log = get_logger()


class AuthInterceptor(grpc.aio.ServerInterceptor):
    """Authenticates and authorizes each call before its message is read.

    Without `credentials` the daemon speaks plain text: the name that a caller gives is trusted, and
    every caller is an administrator.
    """

    def __init__(
        self,
        credentials: CredentialStore | None,
        audit: Audit,
        call_queue: FairQueue,
        streams: OpenStreams,
    ) -> None:
        self._credentials = credentials
        self._audit = audit
        self._call_queue = call_queue
        self._streams = streams

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """See grpc.aio.ServerInterceptor."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        return self._guarded(str(handler_call_details.method).removeprefix(_PACKAGE), handler)

    def _guarded(self, call: str, handler: Handler) -> Handler:
        """Copy the handler of a method with the checks around it.

        The copy serves all calls, so it must keep nothing of any of them.
        """
        behaviour = _answering(behaviour_of(handler))
        is_clients = call.startswith(_CLIENTS)

        async def guarded(messages: AsyncIterator[Any], context: Context) -> Any:  # noqa: ANN401
            rule = RULES.get(call)
            metadata = _texts(context.invocation_metadata() or ())
            caller = await self._admit(call, rule, metadata, context)
            assert rule is not None
            request: Any = messages
            if not handler.request_streaming:
                request = await _only(messages, context)
            what = (call, rule, caller)
            if not is_clients:
                return await self._answer(behaviour, request, context, what)
            if handler.response_streaming:

                def authenticate() -> None:
                    self._authenticate(metadata, context, rule)

                answer = self._answer(behaviour, request, context, what)
                return await self._while_authenticated(answer, context, caller, authenticate)
            try:
                async with self._call_queue.slot(caller.name, request.ByteSize()):
                    return await self._answer(behaviour, request, context, what)
            except ExhaustedError as error:
                await abort(context, error)

        return handler_of(handler, guarded, is_streaming=True)

    async def _admit(
        self, call: str, rule: Rule | None, metadata: Mapping[str, str], context: Context
    ) -> Caller:
        """Authenticate and authorize a call and return its caller, or abort the call."""
        caller = replace(NOBODY, peer=str(context.peer()))
        try:
            if call.startswith(_CLIENTS):
                _check_protocol(metadata)
            caller = self._authenticate(metadata, context, rule)
            _authorize(rule, caller, call)
        except KoalaError as error:
            self._refuse(call, caller, error)
            await abort(context, error)
        set_caller(caller)
        return caller

    async def _answer(
        self,
        behaviour: Callable[[Any, Context], Awaitable[Any]],
        request: Any,  # noqa: ANN401 - any call
        context: Context,
        what: tuple[str, Rule, Caller],
    ) -> Any:  # noqa: ANN401
        call, rule, caller = what
        if rule.names is None:
            return await behaviour(request, context)
        if call == "AgentLink/Connect":  # long-lived; the registry logs its end
            self._note(call, caller, "", "accepted")
            return await behaviour(request, context)
        reply, outcome = None, "cut"
        try:
            reply = await behaviour(request, context)
            outcome = "done"
        except Exception:
            is_denied = context.code() is grpc.StatusCode.PERMISSION_DENIED
            outcome = f"{'refused' if is_denied else 'failed'}: {context.details()}"
            raise
        finally:
            self._note(call, caller, rule.names(request, reply), outcome)
        return reply

    async def _while_authenticated(
        self,
        answer: Coroutine[Any, Any, Any],
        context: Context,
        caller: Caller,
        authenticate: Callable[[], None],
    ) -> None:
        """Serve a stream for as long as its caller's credentials are valid.

        A change of role comes with new credentials, so it ends the stream, too.
        """
        left_s = None if caller.expires_at is None else max(0.0, caller.expires_at - unix_now())
        limit = asyncio.timeout(left_s)
        try:
            async with limit:
                with self._streams.opened(limit, authenticate):
                    await answer
        except TimeoutError:
            if not limit.expired():
                raise
            try:
                authenticate()
                error: KoalaError = UnauthenticatedError(f"what {caller.name} shows has expired")
            except KoalaError as refused:
                error = refused
            await abort(context, error)

    def _refuse(self, call: str, caller: Caller, error: KoalaError) -> None:
        if isinstance(error, UnauthenticatedError | DeniedError):
            is_logged = self._note(call, caller, "", f"refused: {error}")
            emit = log.warning if is_logged else log.debug
            emit("call.refused", call=call, who=caller.name, peer=caller.peer, reason=str(error))

    def _note(self, call: str, caller: Caller, subject: str, outcome: str) -> bool:
        role = "" if caller.kind is None else caller.kind.value
        is_unauthenticated = caller.kind is None and outcome not in ("done", "accepted")
        return self._audit.write(
            is_unauthenticated=is_unauthenticated,
            who=caller.name,
            role=caller.role.value if caller.kind is CallerKind.USER else role,
            peer=caller.peer,
            verb=call.rpartition("/")[2],
            subject=subject,
            outcome=outcome,
        )

    # --- authentication ---------------------------------------------------------------------------

    def _authenticate(
        self, metadata: Mapping[str, str], context: Context, rule: Rule | None
    ) -> Caller:
        """Return the caller by its credentials. Raises UnauthenticatedError for invalid ones."""
        peer = str(context.peer())
        if self._credentials is None:
            if rule is not None and rule.needs is CallerKind.SITE:
                return Caller(kind=CallerKind.SITE, peer=peer)
            name = metadata.get(USER_KEY, "")[:USER_MAX]
            return Caller(name=name, kind=CallerKind.USER, role=Role.ADMINISTRATOR, peer=peer)
        shown: Mapping[str, Any] = context.auth_context()
        if pem := shown.get("x509_pem_cert"):
            uris = [bytes(uri).decode("utf-8", "replace") for uri in shown.get("peer_uri", ())]
            return replace(self._of_certificate(uris, _read(bytes(pem[0]))), peer=peer)
        if token := metadata.get(TOKEN_KEY):
            user = self._credentials.user_of_token(token.removeprefix(TOKEN_SCHEME)[:TOKEN_MAX])
            return replace(user, peer=peer)
        return replace(NOBODY, peer=peer)

    def _of_certificate(self, uris: list[str], shown: Certificate) -> Caller:
        assert self._credentials is not None
        name = site_of_uri(uris[0]) if len(uris) == 1 else None
        if name is None:
            raise UnauthenticatedError(
                "the certificate is not a site's; users show a token, which an administrator makes:"
                " koala user add"
            )
        if shown.expires_at <= unix_now():  # it may have expired since the TLS handshake
            raise UnauthenticatedError(f"the certificate of site {name} has expired")
        self._credentials.check_site(name, shown.serial)
        return Caller(name=name, kind=CallerKind.SITE, expires_at=shown.expires_at)


def _texts(metadata: Iterable[tuple[str, str | bytes]]) -> dict[str, str]:
    """Return the texts among a call's metadata."""
    return {str(key): str(value) for key, value in metadata if not str(key).endswith("-bin")}


@lru_cache(maxsize=4096)
def _read(pem: bytes) -> Certificate:
    """Read a certificate, cached: every call of a connection carries the same one."""
    return read_certificate(pem)


def _check_protocol(metadata: Mapping[str, str]) -> None:
    """Check the client's protocol version. Raises RejectedError."""
    spoken = metadata.get(PROTOCOL_KEY)
    if spoken == str(PROTOCOL):
        return
    version = "no protocol version" if spoken is None else f"protocol {spoken[:40]}"
    raise RejectedError(
        f"the client speaks {version}, this daemon protocol {PROTOCOL}:"
        f" metadata {PROTOCOL_KEY} must be {PROTOCOL}"
    )


def _authorize(rule: Rule | None, caller: Caller, call: str) -> None:
    """Check a caller against the rule. Raises UnauthenticatedError, DeniedError."""
    if rule is None:
        raise DeniedError(f"{call[:80]} has no rule: nobody may call it")
    if rule.needs is None:
        return
    if caller.kind is None:
        missing = (
            "no certificate was shown: `koala-agent join` gets one with the token that"
            " `koala site add` prints, and agents dial the port for certificates with it"
            if rule.needs is CallerKind.SITE
            else "no token was shown: `koala user add` makes one"
        )
        raise UnauthenticatedError(missing)
    if rule.needs is CallerKind.SITE:
        if caller.kind is not CallerKind.SITE:
            raise DeniedError(f"{caller.name} is a user: only sites may {call}")
        return
    if caller.kind is not CallerKind.USER:
        raise DeniedError(f"{caller.name} is a site: only users may {call}")
    if caller.is_invited and call != RENEW_TOKEN:
        raise DeniedError(
            f"{caller.name} is invited, and has no credentials yet: koala login exchanges an"
            " invitation for them"
        )
    if not caller.role.covers(rule.needs):
        raise DeniedError(
            f"{caller.name} has the role {caller.role}: {call.rpartition('/')[2]} needs"
            f" {rule.needs}"
        )


def _answering(
    behaviour: Callable[[Any, Context], Awaitable[Any]],
) -> Callable[[Any, Context], Awaitable[Any]]:
    """Turn the KoalaErrors of a call into gRPC statuses."""

    async def answer(request: Any, context: Context) -> Any:  # noqa: ANN401 - any call
        try:
            return await behaviour(request, context)
        except KoalaError as error:
            await abort(context, error)

    return answer


async def _only(messages: AsyncIterator[Any], context: Context) -> Any:  # noqa: ANN401 - any call
    """Read the single message of a call, after its caller was authorized."""
    message = await anext(messages, None)
    if message is None:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call has no message")
    return message


async def abort(context: Context, error: KoalaError) -> None:
    """End the call with the status of an error."""
    code, message, trailing = to_status(error)
    details = "".join(c if c.isprintable() else " " for c in message)[:MESSAGE_MAX]
    log.debug("call.failed", code=code.name, reason=details)
    await context.abort(code, details, trailing)
