"""Puts and gets of a program that the daemon has not answered yet."""

from __future__ import annotations

from koala_agent.starter.events import Answer
from koala_agent.starter.messages import ValueAsked, ValuePut, to_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from koala_agent.starter.events import Action, ValueRequested
    from koala_agent.starter.messages import RequestAnswered

VALUE_MAX_BYTES = 4096
NAME_MAX_BYTES = 256
REQUESTS_MAX = 1024
PUT_LIMIT_S = 60.0
ANSWER_SLACK_S = 1.0


class _KvRequest:
    """A put or get under way; it fails when no answer came until `until`."""

    def __init__(self, request: ValuePut | ValueAsked, until: float) -> None:
        self.request = request
        self.until = until


class KvRequests:
    """Requests under way, by number."""

    def __init__(self) -> None:
        self._open: dict[int, _KvRequest] = {}

    @property
    def messages(self) -> list[dict[str, object]]:
        """The messages of all requests: an agent that is new gets them again."""
        return [to_message(question.request) for question in self._open.values()]

    @property
    def dues(self) -> list[float]:
        """The instants at which requests fail."""
        return [question.until for question in self._open.values()]

    def refusal(self, event: ValueRequested) -> str:
        """Return why a request may not be made; empty when it may."""
        if len(self._open) >= REQUESTS_MAX:
            return f"{len(self._open)} requests are under way: no more are taken"
        try:
            name_size, size = len(event.name.encode()), len((event.value or "").encode())
        except UnicodeEncodeError:  # JSON can hold half a pair of surrogates, nothing after us can
            return f"the name or value of {event.name!r} cannot be written in UTF-8"
        if not 1 <= name_size <= NAME_MAX_BYTES:
            return f"a name has 1 to {NAME_MAX_BYTES} bytes"
        if size > VALUE_MAX_BYTES:
            return (
                f"the value of {event.name!r} has {size} bytes (expected at most {VALUE_MAX_BYTES})"
            )
        return ""

    def ask(self, event: ValueRequested, now: float) -> dict[str, object]:
        """Add a request; return its message for the agent."""
        request: ValuePut | ValueAsked
        if event.value is None:
            request = ValueAsked(request=event.question, name=event.name, wait_s=event.wait_s)
            limit_s = event.wait_s + ANSWER_SLACK_S
        else:
            request = ValuePut(request=event.question, name=event.name, value=event.value)
            limit_s = PUT_LIMIT_S
        self._open[event.question] = _KvRequest(request, now + limit_s)
        return to_message(request)

    def answer(self, answered: RequestAnswered) -> list[Action]:
        """Answer the process that made the request, if it still waits."""
        number = answered.request
        question = self._open.pop(number, None)
        if question is None:
            return []
        if not answered.ok:
            return [refused(number, answered.error)]
        if isinstance(question.request, ValueAsked):
            return [Answer(question=number, answer={"ok": True, "value": answered.value})]
        return [Answer(question=number, answer={"ok": True})]

    def give_up(self, now: float | None = None) -> list[Action]:
        """Fail the requests that are due by now; None: all."""
        due = [n for n, q in self._open.items() if now is None or q.until <= now]
        return [refused(number, _failure(self._open.pop(number).request)) for number in due]


def refused(number: int, error: str) -> Answer:
    """Return the answer to a request that failed."""
    return Answer(question=number, answer={"ok": False, "error": error})


def _failure(request: ValuePut | ValueAsked) -> str:
    if isinstance(request, ValueAsked):
        return f"no value for {request.name!r} after {request.wait_s:g} s"
    return f"no answer to the put of {request.name!r} within {PUT_LIMIT_S:g} s"
