"""The middleware that sends answers in parts, and what is held until the last one."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from koala.web.answers import PART_BYTES, Answers

BODY = bytes(range(256)) * 1_000


async def test_a_large_answer_is_sent_in_parts_and_held_to_its_end() -> None:
    sent: list[Message] = []
    ended: list[int] = []  # how much was sent by then

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        held = Request(scope).state.held
        held.callback(lambda: ended.append(len(sent)))
        await Response(BODY)(scope, receive, send)

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        assert not ended
        sent.append(message)

    await Answers(app)({"type": "http", "path": "/", "method": "GET"}, receive, send)
    _, *parts, last = sent
    assert b"".join(part["body"] for part in parts) == BODY
    assert max(len(part["body"]) for part in parts) == PART_BYTES
    assert all(part["more_body"] for part in parts)
    assert (last["body"], last["more_body"]) == (b"", False)
    assert ended == [len(sent)]
