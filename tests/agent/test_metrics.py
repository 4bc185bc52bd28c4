"""The agent's metrics: counts of stored claims, readings of its site, over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from koala.common.protocol import messages
from koala.common.protocol.messages import ArmNumber, ClaimEnd, EndKind, Hold, Program
from koala.common.protocol.names import ClaimId
from koala.common.runtime.disk_space import DiskSpace
from koala.errors import ConfigError
from koala_agent.claims.events import Forget, StoreClaim
from koala_agent.claims.states import Armed, Asked, Claim, Gone, Granted, Passed, State
from koala_agent.config import metrics_endpoint, parse_config
from koala_agent.link.session import Session, Timing
from koala_agent.link.session_status import SessionStatus
from koala_agent.lrm.local_manager import Idle
from koala_agent.metrics import AgentMetrics
from koala_agent.transport.command_budget import CommandCounts
from tests.common.metrics.scraping import get, value

AGENT = '[agent]\nsite = "delft"\ndaemon = "127.0.0.1:7740"\nstate_dir = "state"\n'
SITE = "[site]\nprocessors = 8\n"


@dataclass
class QuietSite:
    """A site with these figures."""

    figures: Idle | None
    problem: str = ""

    def startable(self) -> int:
        return 5


def claim_in(state: State, name: str = "j1/1/0/1") -> Claim:
    hold = Hold(
        port=20_000, claim=ClaimId(name), processors=2, hold_s=60.0, program=Program(executable="a")
    )
    return Claim(hold=hold, secret="s", state=state)


def metrics_at(folder: Path) -> AgentMetrics:
    text = f'{AGENT}{SITE}[metrics]\nlisten = "127.0.0.1:0"\n'
    settings = metrics_endpoint(parse_config(text, source="agent.toml", folder=folder))
    assert settings is not None
    assert settings.url_file == str(folder / "state" / "metrics.url")
    (folder / "state").mkdir(exist_ok=True)
    return AgentMetrics(settings, version="1.2.3")


async def scraped(metrics: AgentMetrics, folder: Path, site: QuietSite) -> str:
    """Serve, and return one answer."""
    session = Session(epoch=0, timing=Timing(silence_s=5.0), random=None, now=0.0)  # type: ignore[arg-type]
    disk = DiskSpace(folder, low_bytes=0, ballast_bytes=0)
    url = folder / "state" / "metrics.url"
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(
            metrics.run(site, session_status=SessionStatus(session), disk=disk, identity=None)
        )
        await asyncio.sleep(0)  # it serves as soon as its task runs
        text = (await asyncio.to_thread(get, url.read_text(encoding="utf-8").strip()))[2]
        serving.cancel()
    assert not url.exists()
    return text


async def test_claims_count_once_stored_whatever_is_stored_again(tmp_path: Path) -> None:
    metrics = metrics_at(tmp_path)
    stored: list[StoreClaim | Forget] = []

    async def commit(changes: Sequence[StoreClaim | Forget]) -> None:
        stored.extend(changes)

    counted = metrics.committing(commit)
    gone = Gone(end=ClaimEnd(kind=EndKind.EXITED), due_at=0.0)
    armed = Armed(nonce="n", number=ArmNumber(epoch=1, counter=1))
    states: list[State] = [Asked(grace_until=5.0), Granted(nonce="n"), armed, armed]
    for state in (*states, Passed(nonce="n", passed_at=1.0), gone, gone):
        await counted([StoreClaim(claim=claim_in(state))])
    await counted([StoreClaim(claim=claim_in(Passed(nonce="n", passed_at=1.0), "j2/1/0/1"))])
    await counted([Forget(claim=ClaimId("j1/1/0/1"))])
    metrics.note_copy(messages.TransferFinished(transfer="t", size_bytes=100, took_s=1.0))
    metrics.note_copy(messages.TransferFailed(transfer="t", reason="full", at=""))
    commands = CommandCounts(asked=4, allowed=12, asks_total=7, acts_total=2)
    figures = Idle(
        processors=8, idle=6, startable=6, queued_jobs=3, local_processors=2, commands=commands
    )
    text = await scraped(metrics, tmp_path, QuietSite(figures, problem="the disk is full"))
    assert len(stored) == 9
    assert value(text, "koala_agent_claims_granted_total") == 2
    assert value(text, "koala_agent_claims_ended_total", reason="exited") == 1
    assert value(text, "koala_agent_claims", state="running") == 1
    assert value(text, "koala_agent_claims", state="gone") == 0
    assert value(text, "koala_agent_transfers_total", outcome="failed") == 1
    assert value(text, "koala_agent_transfer_bytes_total") == 100
    assert value(text, "koala_agent_capacity_processors") == 8
    assert value(text, "koala_agent_startable_processors") == 5
    assert value(text, "koala_agent_queued_jobs") == 3
    assert value(text, "koala_agent_commands_total", kind="asks") == 7
    assert value(text, "koala_agent_commands_total", kind="acts") == 2
    assert value(text, "koala_agent_asks_allowed") == 12
    assert value(text, "koala_agent_trouble") == 1
    assert value(text, "koala_agent_link_up") == 0
    assert value(text, "koala_build_info", version="1.2.3") == 1


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("", "metrics.listen is missing"),
        ('listen = "0.0.0.0:1"', "agent.toml: metrics.listen = '0.0.0.0:1' (expected a loopback"),
        (
            'listen = "127.0.0.1:1"\nrelay = "127.0.0.1:2"',
            "metrics.relay is unknown. Known are listen,",
        ),
        ('listen = "127.0.0.1:1"\ncertificate = "c"', "metrics.certificate needs metrics.key"),
    ],
)
def test_a_wrong_table_is_told_at_the_start(tmp_path: Path, table: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(f"{AGENT}{SITE}[metrics]\n{table}\n", source="agent.toml", folder=tmp_path)
    assert said in str(caught.value)
