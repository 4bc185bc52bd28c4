"""The key-value store that the components of a job share."""

import pytest

from koala.core.model.values import JobId
from koala.daemon.agents.kvstore import NAMES_MAX, KeyValueStore
from koala.errors import RejectedError, SpecError

JOB = JobId("j1")


def get(
    exchange: KeyValueStore, name: str, *, attempt: int = 1, wait_s: float = 30.0
) -> str | None:
    return exchange.get(JOB, attempt, asker=name, name=name, wait_s=wait_s, now=0.0)


def test_a_value_is_given_at_once_or_when_it_comes() -> None:
    exchange = KeyValueStore()
    assert get(exchange, "addr/0") is None
    assert [w.asker for w in exchange.put(JOB, 1, name="addr/0", value="a:1")] == ["addr/0"]
    assert exchange.put(JOB, 1, name="addr/0", value="a:1") == []
    assert get(exchange, "addr/0") == "a:1"


def test_a_name_takes_no_second_value() -> None:
    exchange = KeyValueStore()
    exchange.put(JOB, 1, name="addr/0", value="a:1")
    with pytest.raises(RejectedError, match="'addr/0' has another value already: 'a:1'"):
        exchange.put(JOB, 1, name="addr/0", value="b:2")


def test_a_get_ends_after_its_wait() -> None:
    exchange = KeyValueStore()
    get(exchange, "never", wait_s=5.0)
    assert exchange.wake_at == 5.0
    assert exchange.expire(4.9) == []
    assert [w.name for w in exchange.expire(5.0)] == ["never"]
    assert exchange.put(JOB, 1, name="never", value="x") == []


def test_attempts_do_not_see_each_others_values() -> None:
    exchange = KeyValueStore()
    exchange.put(JOB, 1, name="addr/0", value="old")
    get(exchange, "addr/9", attempt=1)
    assert get(exchange, "addr/0", attempt=2) is None
    assert [w.name for w in exchange.forget({JOB: 2})] == ["addr/9"]
    exchange.put(JOB, 2, name="addr/0", value="new")


def test_limits_are_told() -> None:
    exchange = KeyValueStore()
    with pytest.raises(SpecError, match="4097 bytes; at most 4096"):
        exchange.put(JOB, 1, name="a", value="x" * 4097)
    with pytest.raises(SpecError, match=r"expected 1 to 256 bytes\)"):
        exchange.put(JOB, 1, name="", value="x")
    for number in range(NAMES_MAX):
        exchange.put(JOB, 1, name=str(number), value="x")
    with pytest.raises(RejectedError, match="at most 1000"):
        exchange.put(JOB, 1, name="more", value="x")
    exchange.put(JOB, 1, name="0", value="x")
