"""A new authority takes the place of the old one, and nobody is shut out on the way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from koala.cli.main import main
from koala.client import Client
from koala.daemon.auth.authority import Authority
from koala.daemon.auth.authority_rotation import RotationStatus, progress, rotate
from koala.errors import ConfigError, JournalError, RejectedError, UnauthenticatedError
from koala.identity.credentials import Credentials
from koala.identity.tls import DAEMON_HOST, Identity, secure_channel
from koala.wire.v1 import link_pb2
from koala.wire.v1.link_pb2_grpc import AgentLinkStub
from tests.identity.stage import LIMIT_S, Forge, Secured, secured
from tests.identity.test_enrolment import first, renewed

pytestmark = pytest.mark.live


async def is_welcome(stage: Secured, identity: Identity, site: str) -> bool:
    """Whether an agent with this identity, which trusts whom it names, gets a session; False when
    one of the two does not believe the other."""
    address = await stage.certified_address()
    channel = secure_channel(
        address, DAEMON_HOST, authority=identity.authority, identity=identity, options=()
    )
    async with channel:
        call = AgentLinkStub(channel).Connect(timeout=LIMIT_S)
        facts = link_pb2.Facts(processors=4, grace_s=5.0)
        register = link_pb2.Register(protocol=1, site=site, session="s", facts=facts)
        try:
            await call.write(link_pb2.FromAgent(register=register))
            await call.write(link_pb2.FromAgent(inventory_end=link_pb2.InventoryEnd()))
            await first(call, "welcome")
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:  # of the handshake
                raise
            return False
        finally:
            call.cancel()
    return True


def trusted(identity: Identity) -> int:
    return identity.authority.count(b"BEGIN CERTIFICATE")


async def is_served(stage: Secured, shown: Credentials) -> bool:
    async with Client(stage.address, credentials=replace(shown, address=stage.address)) as client:
        return await client.list_jobs() == []


async def renewed_and_used(stage: Secured, identity: Identity, site: str) -> Identity:
    """Only who has shown a new certificate is known to have it."""
    after = await renewed(stage, identity)
    behind = progress(stage.config.state_dir).sites
    assert site in behind
    assert await is_welcome(stage, after, site)
    return after


async def test_both_are_believed_until_everybody_knows_the_new_one(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with secured(tmp_path) as stage:
        delft, leiden = await stage.site("delft"), await stage.site("leiden")
        oldest = delft
        ann = await stage.user("ann")
        assert trusted(delft) == 1
        with pytest.raises(JournalError, match="another daemon runs"):
            rotate(state)
    begun = rotate(state)
    assert (begun.standing, begun.sites) == (RotationStatus.SPREAD, ("delft", "leiden"))
    assert begun.users == ("ann",), "the administrator's own file is written anew by the daemon"

    async with secured(tmp_path) as stage:
        assert await is_welcome(stage, delft, "delft")
        assert await is_served(stage, ann)
        delft = await renewed_and_used(stage, delft, "delft")
        vu = await stage.site("vu")
        assert (trusted(delft), trusted(vu)) == (2, 2)
    with pytest.raises(RejectedError, match=r"sites that have not heard.*: leiden .*users.*: ann"):
        rotate(state)

    async with secured(tmp_path) as stage:
        assert await is_welcome(stage, leiden, "leiden")
        leiden = await renewed_and_used(stage, leiden, "leiden")
        ann_again = replace(await stage.user("ann"), authority=stage.authority)
    moved = rotate(state)
    assert (moved.standing, moved.sites) == (RotationStatus.MOVED, ("delft", "leiden", "vu"))
    assert moved.users == (), "a token is signed by nobody"

    async with secured(tmp_path) as stage:
        for site, identity in (("delft", delft), ("leiden", leiden), ("vu", vu)):
            assert await is_welcome(stage, identity, site)
        assert await is_served(stage, ann_again)
        with pytest.raises(UnauthenticatedError, match="another authority"):
            await is_served(stage, ann)
        later = await stage.site("amsterdam")
        delft = await renewed_and_used(stage, delft, "delft")
        leiden = await renewed_and_used(stage, leiden, "leiden")
    with pytest.raises(RejectedError, match="sites that show what the old one signed yet: vu "):
        rotate(state)
    done = rotate(state, force=True)
    assert (done.standing, done.is_ready) == (RotationStatus.WHOLE, True)

    async with secured(tmp_path) as stage:
        for site, identity in (("delft", delft), ("leiden", leiden), ("amsterdam", later)):
            assert await is_welcome(stage, identity, site)
        assert not await is_welcome(stage, vu, "vu")
        assert not await is_welcome(stage, oldest, "delft")
        assert trusted(await stage.site("utrecht")) == 1
        rotations = [line["object"] for line in stage.log() if line["verb"] == "RotateAuthority"]
    assert rotations == ["spread", "moved", "whole"]


async def test_a_site_that_has_not_joined_yet_would_be_shut_out_too(tmp_path: Path) -> None:
    """Its join token names the authority that signs now, and nobody else is believed by it."""
    state = tmp_path / "state"
    async with secured(tmp_path):
        pass
    rotate(state)
    async with secured(tmp_path) as stage:
        token = await stage.token("vu")
    with pytest.raises(RejectedError, match=r"sites that have not heard.*: vu "):
        rotate(state)
    moved = rotate(state, force=True)
    assert (moved.standing, moved.sites) == (RotationStatus.MOVED, ())
    async with secured(tmp_path) as stage:
        with pytest.raises(grpc.aio.AioRpcError):
            await stage.joined(replace(token, address=stage.address))
        assert trusted(await stage.site("vu")) == 2


async def test_the_commands_say_where_it_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with secured(tmp_path) as stage:
        await stage.site("delft")
    state = str(tmp_path / "state")
    capsys.readouterr()
    assert main(["authority", "show", state]) == 0
    assert capsys.readouterr().out == "whole\n"
    assert main(["authority", "rotate", state]) == 0
    said = capsys.readouterr()
    assert said.out == "spread\n"
    assert "sites that the next step would shut out: delft" in said.err
    assert main(["authority", "rotate", state]) == 1
    assert "koala-agent join do it at once" in capsys.readouterr().err
    assert main(["authority", "rotate", state, "--force", "--json"]) == 0
    assert '"standing": "moved"' in capsys.readouterr().out
    assert main(["authority", "show", str(tmp_path)]) == 2


def test_an_identity_may_trust_two_authorities(tmp_path: Path) -> None:
    old, new = (Authority.open(tmp_path / name).certificate for name in ("old", "new"))
    made = Forge(tmp_path / "new").identity("delft")
    key, certificate = made.key, made.certificate
    identity = replace(made, authority=old + new)
    identity.write(tmp_path / "site.pem")
    assert Identity.read(tmp_path / "site.pem") == identity
    for wrong in (key, key + certificate, certificate * 3, key + certificate + key + certificate):
        with pytest.raises(ConfigError, match="allowed are a private key"):
            Identity.parse(wrong, source="x")
