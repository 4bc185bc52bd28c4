"""Hostile words in a job description reach the program byte for byte, by the way that they go:
RSL, the daemon's message, the agent, the batch script, the starter."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from koala.common.protocol.codec import TO_AGENT
from koala.common.protocol.messages import Hold
from koala.common.wire.v1 import link_pb2
from koala.core.model.actions import ClaimProcessors
from koala.core.model.job_spec import ComponentSpec, JobSpec, StartType
from koala.core.model.values import ClaimId, SiteName, UserName
from koala.job_descriptions import read_job, write_job
from koala_agent.link import codec
from koala_agent.link.session_events import Order
from tests.agent.site import a_site
from tests.fuzz.hostile_values import TEXTS, utf8

pytestmark = pytest.mark.live

DUMP = """
import json, os, sys
said = [os.fsencode(word).hex() for word in sys.argv[1:]]
mine = {n.hex(): v.hex() for n, v in os.environb.items() if n.startswith(b"MINE_")}
json.dump({"arguments": said, "environment": mine}, sys.stdout)
"""


def hostile_words(count: int) -> list[str]:
    """The worst ones, and mixtures; NUL is no part of any word."""
    random = Random(26)
    drawn = [*TEXTS, *(utf8(random) for _ in range(count))]
    return [word.encode("utf-8", "replace").decode().replace("\0", "") for word in drawn]


def everything_in(folder: Path) -> list[Path]:
    return list(folder.rglob("*"))


def as_agents_hear(spec: JobSpec) -> Hold:
    """The job's component as its text says it, over the wire."""
    (component,) = read_job(write_job(spec)).spec.components
    action = ClaimProcessors(
        claim=ClaimId("j1/1/0/1"),
        site=SiteName("here"),
        ask_number=1,
        is_granted=False,
        owner=UserName("ann"),
        processors=1,
        port=20_000,
        hold_s=60.0,
        no_barrier=True,
        program=component.program(component.label or ""),
    )
    message = link_pb2.ToAgent.FromString(TO_AGENT.encode(action).SerializeToString())
    order = codec.decode(message)
    assert isinstance(order, Order)
    assert isinstance(order.body, Hold)
    return order.body


@pytest.mark.parametrize("is_shared", [True, False])
async def test_words_arrive_byte_for_byte(tmp_path: Path, is_shared: bool) -> None:
    scratch = None if is_shared else tmp_path / "scratch"
    if scratch is not None:
        scratch.mkdir()
    words = hostile_words(300)
    environment = tuple((f"MINE_{number}", word) for number, word in enumerate(words))
    component = ComponentSpec(
        executable=sys.executable,
        arguments=("-I", "-S", "-c", DUMP, *words),
        environment=environment,
        processors=1,
        label="$(touch x); `touch y`",
        start_type=StartType.NONE,
    )
    hold = as_agents_hear(JobSpec(components=(component,)))
    assert hold.program.arguments[4:] == tuple(words)
    async with a_site(tmp_path / "a site; $(touch y)", scratch=scratch) as site:
        site.claims.order(replace(hold))
        end = (await site.gone()).end
        assert end is not None
        folder = site.folders.folder(hold.claim)
        assert end.is_well, (end, (folder / "stderr.0").read_text())
        said = json.loads((folder / "stdout.0").read_text())
    assert [bytes.fromhex(word).decode() for word in said["arguments"]] == words
    found = {
        bytes.fromhex(n).decode(): bytes.fromhex(v).decode() for n, v in said["environment"].items()
    }
    assert found == dict(environment)
    assert not [path for path in everything_in(tmp_path) if path.name in ("x", "y")]
