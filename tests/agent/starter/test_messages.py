"""Messages between starter and agent: one declaration for both ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koala_agent.starter import messages

SAMPLES: dict[str, Any] = {
    "str": "a",
    "str | None": "a",
    "int": 1,
    "int | None": 1,
    "bool": True,
    "float": 1.5,
    "float | None": None,
    "dict[str, object]": {"a": [1]},
    "dict[str, object] | None": None,
    "tuple[int, ...]": (1, 2),
    "tuple[int, int]": (1, 2),
    "tuple[int, int] | None": (1, 2),
    "tuple[tuple[str, int], ...]": (("a", 1),),
    "tuple[tuple[str, float], ...]": (("a", 1.5),),
    "tuple[tuple[str, str, int, str, bool], ...]": (("a", "b", 1, "c", True),),
    "tuple[tuple[str, int, float, str], ...]": (("a", 1, 1.5, "b"),),
    "tuple[tuple[str, str, int, int, float, float, int, str], ...]": (
        ("a", "b", 1, 2, 1.5, 2.5, 3, "c"),
    ),
}
"""A value for each type of field."""

RECORDS = [
    one
    for one in vars(messages).values()
    if getattr(one, "__module__", "") == messages.__name__ and isinstance(one, type)
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_a_message_is_read_as_it_was_written(record: Any) -> None:
    fields = getattr(record, "__annotations__", {})
    written = record(**{name: SAMPLES[kind] for name, kind in fields.items()})
    sent = json.loads(json.dumps(messages.to_json(written)))
    if fields:
        assert messages.read(record, {**sent, "of a later version": 1}) == written


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_a_field_of_another_type_is_named(record: Any) -> None:
    fields = getattr(record, "__annotations__", {})
    good = json.loads(json.dumps({name: SAMPLES[kind] for name, kind in fields.items()}))
    for name in fields:
        with pytest.raises(ValueError, match=f"^{name} = "):
            messages.read(record, {**good, name: [{}]})
