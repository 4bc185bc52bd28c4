"""Readers of `after` and `notify`, which relate a job to other jobs and to people."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from koala.core.model.job_spec import Notify
from koala.core.model.predecessors import Ended, Predecessor
from koala.core.model.values import JobId
from koala.job_descriptions import fields
from koala.job_descriptions.fields import AttributeText
from koala.job_descriptions.tree import AnyNode, Literal, Sequence, Value

PREDECESSORS_MAX = 100
_PREDECESSOR = re.compile(rf"(j[0-9]{{1,18}})(?::({'|'.join(Ended)}))?")
_TOPIC = re.compile(r"[^\s#+/$][^\s#+/]{0,199}")


def after(attribute: AttributeText) -> tuple[Predecessor, ...]:
    """Read jobs, each once: JOB, JOB:any, or a mapping of YAML with `job` and `ended`."""
    predecessors: dict[JobId, Predecessor] = {}
    values = attribute.relation.values
    if values and all(_is_pair(value) for value in values):  # one mapping, not a list of them
        values = (Sequence(values=values, offset=values[0].offset),)
    for value in values:
        literal = _predecessor_literal(attribute, value)
        condition = predecessor(literal.text)
        if condition is None:
            raise attribute.wrong(literal, PREDECESSOR_FORM)
        if condition.job in predecessors:
            raise attribute.wrong(literal, "each job once")
        predecessors[condition.job] = condition
    if len(predecessors) > PREDECESSORS_MAX:
        raise attribute.error(
            f"found {len(predecessors)} jobs, expected at most {PREDECESSORS_MAX}"
        )
    return tuple(predecessors.values())


PREDECESSOR_FORM = "a job's id such as j12, or j12:any where any end will do"


def predecessor(text: str) -> Predecessor | None:
    """Parse JOB, JOB:ok or JOB:any; None for any other text."""
    match = _PREDECESSOR.fullmatch(text)
    return match and Predecessor(job=JobId(match[1]), ended=Ended(match[2] or Ended.OK))


def predecessor_text(condition: Predecessor) -> str:
    """Write a predecessor as the text that reads back the same."""
    return condition.job if condition.ended is Ended.OK else f"{condition.job}:{condition.ended}"


def _is_pair(value: AnyNode) -> bool:
    match value:
        case Sequence(values=(Literal(text="job" | "ended"), Literal())):
            return True
        case _:
            return False


def _predecessor_literal(attribute: AttributeText, value: AnyNode) -> Literal:
    """Return a predecessor as one literal, whichever form it was given in."""
    match value:
        case Literal():
            return value
        case Sequence(values=pairs) if all(_is_pair(pair) for pair in pairs):
            texts = {pair.values[0].text: pair.values[1].text for pair in pairs}  # type: ignore[union-attr]
            text = f"{texts.get('job', '')}:{texts.get('ended', Ended.OK)}"
            return Literal(text=text, offset=value.offset)
        case _:
            raise attribute.error(f"found another form, expected {PREDECESSOR_FORM}", value)


def notify(attribute: AttributeText) -> Notify:
    """Read (topic NAME), (mail ADDRESS), (webhook URL), (command PROGRAM ARGUMENT ...), and (on
    EVENT ...)."""
    request = Notify()
    for value in attribute.relation.values:
        match value:
            case Sequence(values=(Literal(text="topic"), Literal() as topic)) if not request.topic:
                if not (_TOPIC.fullmatch(topic.text) and topic.text.isprintable()):
                    raise attribute.wrong(topic, "a name without blanks, #, + and /")
                request = replace(request, topic=topic.text)
            case Sequence(values=(Literal(text="mail"), Literal() as mail)) if not request.mail:
                request = replace(request, mail=checked(attribute, mail, is_address, ADDRESS_FORM))
            case Sequence(values=(Literal(text="webhook"), Literal() as url)) if (
                not request.webhook
            ):
                request = replace(request, webhook=checked(attribute, url, is_url, URL_FORM))
            case Sequence(values=(Literal(text="on"), *events)) if not request.on and events:
                request = replace(request, on=_events(attribute, events))
            case Sequence(values=(Literal(text="command"), *words)) if (
                not request.command and words
            ):
                request = replace(request, command=_command(attribute, words))
            case _:
                message = (
                    "found another form, expected (topic NAME), (mail ADDRESS), (webhook URL),"
                    " (command PROGRAM ...) or (on EVENT ...), each once"
                )
                raise attribute.error(message, value)
    return request


NOTIFIED = ("start", "end", "failure", "setback", "expiry")
"""Events that can be notified; `expiry` is of credentials, and in the settings of users only."""
ADDRESS_FORM = "an address such as ann@example.org"
URL_FORM = "a URL with https:// or http://"
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,253})")
_URL = re.compile(r"https?://[!-~]{1,2000}")


def is_address(text: str) -> bool:
    """Test for an address of mail."""
    return bool(_ADDRESS.fullmatch(text))


def is_url(text: str) -> bool:
    """Test for the URL of a webhook."""
    return bool(_URL.fullmatch(text))


def checked(
    attribute: AttributeText, literal: Literal, test: Callable[[str], bool], form: str
) -> str:
    """Return the text of a literal that passes a test. Raises SpecError."""
    if not test(literal.text):
        raise attribute.wrong(literal, form)
    return literal.text


def _events(attribute: AttributeText, values: list[Value]) -> tuple[str, ...]:
    known = NOTIFIED[:-1]
    found: list[str] = []
    for value in values:
        if not isinstance(value, Literal) or value.text not in known or value.text in found:
            raise attribute.error(f"expected {', '.join(known)}, each once", value)
        found.append(value.text)
    return tuple(found)


def _command(attribute: AttributeText, words: list[Value]) -> tuple[str, ...]:
    literals = [word for word in words if isinstance(word, Literal)]
    if len(literals) < len(words):
        raise attribute.error("found a sequence, expected words of a command", words[0])
    if not literals[0].text.startswith("/"):
        raise attribute.wrong(literals[0], "the absolute path of a program at the daemon")
    texts = tuple(literal.text for literal in literals)
    if sum(len(text.encode()) + 1 for text in texts) > fields.PATH_BYTES_MAX:
        raise attribute.error(f"found more than {fields.PATH_BYTES_MAX} bytes of a command")
    return texts
