"""Readers of `after` and `notify`, which relate a job to other jobs and to people."""

from __future__ import annotations

import re
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
    """Read (topic NAME), (command PROGRAM ARGUMENT ...), or both."""
    request = Notify()
    for value in attribute.relation.values:
        match value:
            case Sequence(values=(Literal(text="topic"), Literal() as topic)) if not request.topic:
                if not (_TOPIC.fullmatch(topic.text) and topic.text.isprintable()):
                    raise attribute.wrong(topic, "a name without blanks, #, + and /")
                request = replace(request, topic=topic.text)
            case Sequence(values=(Literal(text="command"), *words)) if (
                not request.command and words
            ):
                request = replace(request, command=_command(attribute, words))
            case _:
                message = "found another form, expected (topic NAME) or (command PROGRAM ...)"
                raise attribute.error(message, value)
    return request


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
