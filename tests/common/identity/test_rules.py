"""Each audience may call what its rule allows: every call of every service, on real connections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from koala.common.identity.credentials import Credentials
from koala.common.identity.tls import Identity
from koala.common.protocol.versions import PROTOCOL
from koala.common.wire.status import PROTOCOL_KEY, TOKEN_KEY, TOKEN_SCHEME
from koala.common.wire.v1 import identity_pb2, koala_pb2, link_pb2
from koala.daemon.auth.access_rules import RENEW_TOKEN, RULES, CallerKind, Role
from koala.daemon.auth.audit import UNAUTHENTICATED_FILE
from tests.common.identity.stage import LIMIT_S, Secured, secured

pytestmark = pytest.mark.live

SERVICES: tuple[ServiceDescriptor, ...] = tuple(
    service
    for module in (koala_pb2, link_pb2, identity_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
)
"""What a daemon serves; files are the relay's and the agents', who ask for tokens of their own."""

CALLERS = ("nobody", "wrong token", "site", "user", "operator", "administrator")
ALLOWED: dict[Role | CallerKind | None, tuple[str, ...]] = {
    None: CALLERS,
    CallerKind.SITE: ("site",),
    Role.USER: ("user", "operator", "administrator"),
    Role.OPERATOR: ("operator", "administrator"),
    Role.ADMINISTRATOR: ("administrator",),
}
LEAST = {
    "Koala/Submit": Role.USER,
    "Koala/Cancel": Role.USER,
    "Koala/Resize": Role.USER,
    "Koala/ChangeSite": Role.USER,
    "Koala/AddSite": Role.USER,
    "Koala/RevokeSite": Role.USER,
    "Koala/AddUser": Role.ADMINISTRATOR,
    "Koala/SetUser": Role.ADMINISTRATOR,
    "Koala/SetGroup": Role.ADMINISTRATOR,
    "Koala/RemoveGroup": Role.ADMINISTRATOR,
    "Koala/RevokeUser": Role.ADMINISTRATOR,
    "Koala/ListUsers": Role.ADMINISTRATOR,
    "Koala/Audit": Role.ADMINISTRATOR,
    "AgentLink/Connect": CallerKind.SITE,
    "Enrolment/Renew": CallerKind.SITE,
}
"""Written down a second time: a slip in the table must not pass because it is the table."""


def methods() -> Mapping[str, MethodDescriptor]:
    return {f"{s.name}/{m.name}": m for s in SERVICES for m in s.methods}


def test_every_call_has_a_rule_and_every_rule_a_call() -> None:
    assert set(RULES) == set(methods())


def test_what_changes_something_is_not_for_less_than_it_should_be() -> None:
    assert {call: RULES[call].needs for call in LEAST} == LEAST
    anybody = {call for call, rule in RULES.items() if rule.needs is None}
    assert anybody == {"Enrolment/Where", "Enrolment/Join"}


def test_what_changes_something_is_in_the_audit_log() -> None:
    questions = {
        "Koala/Hello", "Koala/List", "Koala/Show", "Koala/Why", "Koala/Timeline", "Koala/Sites",
        "Koala/ListFiles", "Koala/Metrics", "Koala/Report", "Koala/Watch", "Koala/Logs",
        "Koala/Outputs", "Koala/ListEnrolments", "Koala/ListUsers", "Koala/Audit",
        "Koala/ListGroups", "Koala/GridTimeline",
        "Koala/Queues",
        "Enrolment/Where",
    }  # fmt: skip
    assert {call for call, rule in RULES.items() if rule.names is None} == questions


@pytest.mark.parametrize("role", Role)
def test_a_role_covers_itself_and_those_before_it(role: Role) -> None:
    order = list(Role)
    assert [other for other in order if role.covers(other)] == order[: order.index(role) + 1]


async def everybody(stage: Secured) -> dict[str, tuple[Identity | None, str]]:
    """Each caller's certificate and token."""
    users = {role.value: await stage.user(f"a-{role}", role) for role in Role}
    tokens: dict[str, Credentials] = {
        **users,
        "wrong token": replace(stage.administrator, token="koala_0123456789abcdef_wrong"),
    }
    found: dict[str, tuple[Identity | None, str]] = {
        name: (None, credentials.token) for name, credentials in tokens.items()
    }
    return {**found, "nobody": (None, ""), "site": (await stage.site("delft"), "")}


async def outcome(channel: Any, call: str, token: str) -> grpc.StatusCode:
    """The status of an empty request: whether it got as far as the method."""
    method = methods()[call]
    service = method.containing_service.full_name
    metadata = [(PROTOCOL_KEY, str(PROTOCOL))] + (
        [(TOKEN_KEY, TOKEN_SCHEME + token)] if token else []
    )
    path = f"/{service}/{method.name}"
    running: Any
    if method.client_streaming:
        running = channel.stream_stream(path)(metadata=metadata, timeout=LIMIT_S)
        await running.done_writing()
    elif method.server_streaming:
        running = channel.unary_stream(path)(b"", metadata=metadata, timeout=LIMIT_S)
    else:
        running = channel.unary_unary(path)(b"", metadata=metadata, timeout=LIMIT_S)
    if not (method.client_streaming or method.server_streaming):
        return await running.code()  # type: ignore[no-any-return]
    if call == "Koala/Watch" and await running.initial_metadata():
        running.cancel()  # it would go on for ever
        return grpc.StatusCode.OK
    return await running.code()  # type: ignore[no-any-return]


async def test_each_call_is_answered_for_those_it_is_for_and_for_nobody_else(
    tmp_path: Path,
) -> None:
    refused = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
    wrong = []
    async with secured(tmp_path) as stage:
        callers = await everybody(stage)
        assert set(callers) == set(CALLERS)
        for name, (identity, token) in callers.items():
            async with stage.channel(identity) as channel:
                # A new token last: it ends the one that is shown.
                for call, rule in sorted(RULES.items(), key=lambda one: one[0] == RENEW_TOKEN):
                    code = await outcome(channel, call, token)
                    # A wrong token is refused even where none is asked for; a join without a good
                    # secret is refused by the call itself.
                    is_open = rule.needs is None
                    if is_open and (name == "wrong token" or call == "Enrolment/Join"):
                        continue
                    if (name in ALLOWED[rule.needs]) == (code in refused):
                        wrong.append((name, call, code.name))
        lines = [*stage.log(), *stage.log(UNAUTHENTICATED_FILE)]
    assert wrong == []
    told = {(line["who"], line["verb"]) for line in lines if "refused" in line["outcome"]}
    assert ("a-user", "AddUser") in told
    assert ("delft", "Submit") in told
    assert ("", "Hello") in told


async def test_a_call_without_a_rule_is_refused_to_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with secured(tmp_path) as stage, stage.channel(None) as channel:
        monkeypatch.delitem(RULES, "Koala/Sites")
        code = await outcome(channel, "Koala/Sites", stage.administrator.token)
        assert code is grpc.StatusCode.PERMISSION_DENIED
        code = await outcome(channel, "Koala/ListFiles", stage.administrator.token)
        assert code is grpc.StatusCode.OK
