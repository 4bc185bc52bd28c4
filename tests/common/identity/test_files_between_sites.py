"""File servers and the relay: only holders of a certificate get through, and only the server that
is meant is spoken to; the token of the transfer comes on top."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from koala.common.identity.keys import make_request
from koala.common.identity.tls import DAEMON_HOST, Identity, IdentityFile, secure_channel, site_host
from koala.common.wire.connection_diagnosis import why_not
from koala.common.wire.v1 import files_pb2, files_pb2_grpc
from koala.daemon.auth.certificate_authority import CertificateAuthority
from koala_agent.files import FilesSettings
from tests.common.files.stage import a_relay, a_site, finished, orders, relayed, running, some_bytes
from tests.common.identity.stage import LIMIT_S, Forge

pytestmark = pytest.mark.live


def certified(
    folder: Path, authority: CertificateAuthority, name: str, *, serve: bool = True
) -> FilesSettings:
    """A site with a certificate of its own."""
    key, request = make_request(name)
    made = authority.sign_site(name, request, lifetime_s=3_600)
    path = folder / f"{name}.pem"
    Identity(key=key, certificate=made.pem, authority=authority.certificate).write(path)
    return a_site(folder, name, serve=serve, identity=IdentityFile(path))


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority.open(tmp_path / "state")


async def test_a_file_goes_through_the_relay(
    tmp_path: Path, authority: CertificateAuthority
) -> None:
    content = some_bytes(300_000)
    identity = str(authority.serving())
    async with (
        a_relay(tmp_path / "spool", identity=identity) as relay,
        running(certified(tmp_path, authority, "delft", serve=False)) as delft,
        running(certified(tmp_path, authority, "leiden")) as leiden,
    ):
        delft.put("input.dat", content)
        serve, fetch = relayed(*orders(content, address=relay))
        for site in (delft, leiden):
            site.relay = relay
        delft.files.serve(serve)
        leiden.files.fetch(fetch)
        await finished(leiden, fetch.transfer)


async def test_a_server_that_is_another_site_gets_no_token(
    tmp_path: Path, authority: CertificateAuthority
) -> None:
    """A certificate of the same authority, at the address that was ordered, of the wrong site."""
    content = some_bytes(1_000)
    async with (
        running(certified(tmp_path, authority, "rogue")) as rogue,
        running(certified(tmp_path, authority, "leiden")) as leiden,
    ):
        rogue.put("input.dat", content)
        serve, fetch = orders(content, address=rogue.address)
        assert fetch.source == "delft"
        rogue.files.serve(serve)
        own = IdentityFile(tmp_path / "leiden.pem").read()
        finding = await why_not(
            rogue.address, site_host("delft"), authority=own.authority, identity=own
        )
        assert finding.is_refusal
        assert "not the daemon's: somebody else answers" in finding.text
        leiden.files.fetch(fetch)
        honest = replace(fetch, transfer="t2", source="rogue")
        rogue.files.serve(replace(serve, transfer="t2"))
        leiden.files.fetch(honest)
        await finished(leiden, "t2")
        assert leiden.files.path(fetch.transfer) is None


@pytest.mark.parametrize("what", ["nothing", "plain text", "foreign", "expired"])
@pytest.mark.parametrize("server", ["site", "relay"])
async def test_without_a_certificate_of_the_authority_nobody_reads(
    tmp_path: Path, authority: CertificateAuthority, what: str, server: str
) -> None:
    """The right token, and not the certificate."""
    content = some_bytes(1_000)
    match what:
        case "foreign":
            shown: Identity | None = replace(
                Forge(tmp_path / "stranger").identity("leiden"), authority=authority.certificate
            )
        case "expired":
            shown = Forge(tmp_path / "state").identity("leiden", from_s=-9, until_s=-1)
        case _:
            shown = None
    async with (
        a_relay(tmp_path / "spool", identity=str(authority.serving())) as relay,
        running(certified(tmp_path, authority, "delft")) as delft,
    ):
        delft.put("input.dat", content)
        serve, fetch = orders(content, address=delft.address)
        delft.files.serve(serve)
        address, host = (
            (delft.address, site_host("delft")) if server == "site" else (relay, DAEMON_HOST)
        )
        if what == "plain text":
            channel = grpc.aio.insecure_channel(address)
        else:
            channel = secure_channel(
                address, host, authority=authority.certificate, identity=shown, options=()
            )
        async with channel:
            request = files_pb2.GetRequest(name=fetch.transfer, token=fetch.token)
            call = files_pb2_grpc.FilesStub(channel).Get(request, timeout=LIMIT_S)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call.read()
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_users_certificate_serves_nothing(
    tmp_path: Path, authority: CertificateAuthority
) -> None:
    """Made for calling: as a server it is refused, whatever name it has."""
    forge = Forge(tmp_path / "state")
    purpose = ExtendedKeyUsageOID.CLIENT_AUTH
    identity = forge.identity("ann", purpose=purpose, host=site_host("delft"))
    identity.write(tmp_path / "ann.pem")
    settings = a_site(tmp_path, "delft", identity=IdentityFile(tmp_path / "ann.pem"))
    async with running(settings) as delft:
        finding = await why_not(delft.address, site_host("delft"), authority=authority.certificate)
        assert finding.is_refusal
