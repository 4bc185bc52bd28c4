"""Processes that belong to a claim are found and addressed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest

from koala_agent.lrm.claim_processes import (
    LiveProcess,
    ProcessIdentity,
    groups_of,
    identify,
    is_alive,
    members,
    scan,
    send,
    tag_in,
    tag_of,
)
from koala_agent.starter.process_tree import TAG
from tests.agent.watching import Ear
from tests.lrm.harness import find_by_claim


def a_process(
    pid: int,
    *,
    parent: int = 1,
    claim: str | None = None,
    scope: str | None = None,
    group: int = 0,
    tag: int | None = None,
) -> LiveProcess:
    return LiveProcess(
        identity=ProcessIdentity(pid, 10 * pid),
        parent=parent,
        group=group or pid,
        tag=tag,
        claim=claim,
        scope=scope,
        cpu_s=0.0,
        memory_bytes=0,
    )


def pids(found: tuple[LiveProcess, ...]) -> list[int]:
    return [process.identity.pid for process in found]


def test_descendants_belong_to_the_claim_whatever_they_did_to_their_environment() -> None:
    seen = [
        a_process(10, claim="a"),
        a_process(11, parent=10),
        a_process(12, parent=11),
        a_process(13, parent=11, claim="b"),
        a_process(14, parent=13),
        a_process(15),
    ]
    found = members(seen, {"a": (), "b": ()}, scope=None)
    assert {claim: pids(belonging) for claim, belonging in found.items()} == {
        "a": [10, 11, 12],
        "b": [13, 14],
    }


def test_processes_of_another_local_manager_are_left_out_and_those_of_nobody_taken() -> None:
    seen = [
        a_process(10, claim="a", scope="here"),
        a_process(11, claim="a", scope="elsewhere"),
        a_process(12, claim="a"),
    ]
    assert pids(members(seen, {"a": ()}, scope="here")["a"]) == [10, 12]


def test_a_tag_says_more_than_an_environment_and_only_at_its_own_local_manager() -> None:
    own, foreign = tag_of("a", scope="here"), tag_of("a", scope="elsewhere")
    seen = [
        a_process(10, tag=own),
        a_process(11, tag=own, claim="b", scope="here"),
        a_process(12, tag=foreign),
        a_process(13, parent=11),
    ]
    found = members(seen, {"a": (), "b": ()}, scope="here")
    assert {claim: pids(belonging) for claim, belonging in found.items()} == {
        "a": [10, 11, 13],
        "b": [],
    }


@pytest.mark.live
async def test_a_tag_stays_on_what_leaves_everything_else_behind(ear: Ear) -> None:
    claim = f"tagged-{os.getpid()}"
    tag = tag_of(claim, scope="here")
    wear = (
        "import os; from koala_agent.starter.process_tree import TAG, pop_tag, set_tag\n"
        "set_tag(pop_tag(os.environ))\n"
        "assert TAG not in os.environ\n"
        f"says = 'while read line; do echo $line; done < /proc/self/limits > {ear.path};"
        " exec sleep 600'\n"
        "os.execv('/usr/bin/env', ['env', '-i', 'setsid', 'sh', '-c', says])"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", wear, env={**os.environ, TAG: str(tag)}
    )
    limits = b""
    while b"file locks" not in limits:
        limits = (await ear.line()).encode()
    assert tag_in(limits) == tag  # as another user reads it, too
    (found,) = [seen for seen in scan().seen if seen.tag == tag]
    assert (found.identity.pid, found.claim) == (process.pid, None)
    assert [one.pid for one in find_by_claim(claim, scope="here")] == [process.pid]
    assert send(found.identity, signal.SIGKILL)
    await process.wait()


def test_a_group_with_members_of_others_is_not_signalled_as_a_whole() -> None:
    seen = [
        a_process(10, claim="a", group=10),
        a_process(11, claim="a", group=10),
        a_process(12, claim="a", group=99),
        a_process(13, group=99),
        a_process(14, claim="a", group=os.getpgrp()),
    ]
    found = members(seen, {"a": ()}, scope=None)["a"]
    assert groups_of(found, seen) == (10,)


def test_a_signal_never_reaches_a_process_with_another_start() -> None:
    own = identify(os.getpid())
    assert own is not None
    assert is_alive(own)
    impostor = ProcessIdentity(own.pid, own.start_ticks + 1)
    assert not is_alive(impostor)
    assert not send(impostor, signal.SIGKILL)
