"""Secrets on disk are one user's alone, and what is not is refused with what is allowed."""

from __future__ import annotations

import os
import ssl
import stat
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from koala.client import AsyncClient
from koala.common.identity.credentials import (
    Credentials,
    announce,
    credentials_text,
    find_credentials,
    read_credentials,
)
from koala.common.identity.private_files import (
    check_private,
    private_folder,
    read_private,
    write_private,
)
from koala.common.identity.tls import Identity, identity_path
from koala.daemon.auth.certificate_authority import CertificateAuthority
from koala.errors import ConfigError
from koala_agent.link.enrolment import find_identity
from koala_agent.state_folder import PRIVATE, check_state
from tests.agent.live.agent_process import a_job, agent_process, command
from tests.agent.live.fake_daemon import GRANTED, fake_daemon, hold, patiently
from tests.common.identity.stage import Forge, secured
from tests.daemon.running import config_of, running
from tests.harness.ports import free_port


def test_what_is_written_is_for_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = private_folder(tmp_path / "a" / "b")
        write_private(folder / "key", b"secret")
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "key").stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["key"]
    assert read_private(folder / "key") == b"secret"


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o602, 0o644, 0o666])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    write_private(path, b"secret")
    path.chmod(mode)
    with pytest.raises(ConfigError) as refused:
        read_private(path)
    said = str(refused.value)
    assert said.startswith(f"{path} has mode {mode:04o}")
    assert f"chmod 0600 {path}" in said
    assert "secret" not in said


def test_a_folder_that_others_may_use_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    with pytest.raises(ConfigError, match=r"mode 0750.*expected 0700"):
        private_folder(tmp_path)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    write_private(tmp_path / "key", b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "key")
    with pytest.raises(ConfigError, match="neither a file nor a folder"):
        read_private(tmp_path / "link")


def test_what_is_somebody_elses_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_private(tmp_path / "key", b"secret")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ConfigError, match=rf"owned by user id {os.getuid()} \(expected"):
        check_private(tmp_path / "key")


SECRETS = (
    "authority", "authority/ca.pem", "authority/daemon.pem", "authority/enrolments.json",
    "authority/administrator.toml", "authority/secret", "audit.jsonl", "journal.db", ".",
)  # fmt: skip


@pytest.mark.live
@pytest.mark.parametrize("name", SECRETS)
async def test_a_daemon_does_not_start_on_what_others_may_use(tmp_path: Path, name: str) -> None:
    async with secured(tmp_path):
        pass
    path = tmp_path / "state" / name
    if name == "audit.jsonl":  # which nothing was written to yet
        path.touch(mode=0o600)
    path.chmod(path.stat().st_mode | 0o044)
    with pytest.raises(ExceptionGroup) as refused:
        async with running(config_of(tmp_path, is_plain=False)):
            pass
    (error,) = refused.value.exceptions
    assert isinstance(error, ConfigError)
    assert str(path.resolve()) in str(error).replace("/.", "")
    assert "has mode 07" in str(error) or "has mode 06" in str(error)


@pytest.mark.live
async def test_everything_a_daemon_writes_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with secured(tmp_path) as stage:
            async with stage.client() as client:
                await client.submit("&(executable=/bin/true)")
            modes = {}
            for path in (tmp_path / "state").rglob("*"):
                with suppress(FileNotFoundError):  # what is renamed when it is written
                    modes[str(path)] = stat.S_IMODE(path.stat().st_mode)
    finally:
        os.umask(before)
    wrong = {path: oct(mode) for path, mode in modes.items() if mode not in (0o600, 0o700)}
    assert wrong == {}


def spoilt_identities(folder: Path) -> dict[str, bytes]:
    """A site's identity, spoilt in several ways, by what is said of it."""
    good, other = (Forge(folder / name).identity("delft") for name in ("daemon", "other"))
    middle = len(good.certificate) // 2
    nonsense = good.certificate[:middle] + b"AAAA" + good.certificate[middle:]
    return {
        "expected a private key, its certificate and its authority's": good.text()[:300],
        "the private key cannot be read": replace(good, key=good.key.replace(b"M", b"N")).text(),
        "the certificate cannot be read": replace(good, certificate=nonsense).text(),
        "the authority's certificate cannot be read": replace(good, authority=nonsense).text(),
        "the private key is not that of the certificate": replace(good, key=other.key).text(),
        "or was changed since": replace(good, certificate=flip(good.certificate)).text(),
        "the authority's certificate was changed": replace(
            good, authority=flip(good.authority)
        ).text(),
        "was not signed by the authority": replace(good, authority=other.authority).text(),
    }


def flip(certificate: bytes) -> bytes:
    """One bit of its signature is another."""
    der = ssl.PEM_cert_to_DER_cert(certificate.decode())
    return ssl.DER_cert_to_PEM_cert(der[:-1] + bytes([der[-1] ^ 0x01])).encode()


def test_an_identity_is_as_tls_takes_it_however_it_was_written(tmp_path: Path) -> None:
    """Our reader takes more than gRPC does, which tells nobody."""
    good = Forge(tmp_path / "daemon").identity("delft")
    for change in (b"\n", b"\r\n"), (b"\nM", b"\n\x0bM"), (b"\nM", b"\n \nM"), (b"=\n", b"\x0b=\n"):
        assert Identity.parse(good.text().replace(*change), source="x") == good


async def test_an_agent_does_not_start_with_a_spoilt_identity(tmp_path: Path) -> None:
    """It was a traceback, or dialled for ever and was not told why it is not let in."""
    path = identity_path(tmp_path / "state")
    private_folder(path.parent)
    told = ""
    for problem, text in spoilt_identities(tmp_path).items():
        write_private(path, text)
        with pytest.raises(ConfigError) as refused:
            find_identity(tmp_path / "state", "delft")
        told = str(refused.value)
        assert told.startswith(f"{path}: ")
        assert problem in told
        assert "The site must join again: an operator's `koala site add delft` prints" in told
    config = tmp_path / "delft.toml"
    config.write_text(
        f'[agent]\nsite = "delft"\ndaemon = "127.0.0.1:{free_port()}"\n'
        f'state_dir = "{tmp_path}/state"\n[site]\nprocessors = 4\n'
    )
    status, _, error = await command(str(config))
    assert status == 2
    assert f"koala-agent: {told}\n" in error
    assert "Traceback" not in error


def test_a_daemon_makes_a_spoilt_certificate_of_its_own_again(tmp_path: Path) -> None:
    """All that others know of it is its name and the authority."""
    authority = CertificateAuthority.open(tmp_path / "daemon")
    path = authority.serving()
    for text in spoilt_identities(tmp_path).values():
        write_private(path, text)
        assert authority.serving() == path
        assert Identity.read(path).authority == authority.certificate


def test_a_spoilt_authority_is_refused(tmp_path: Path) -> None:
    paths = [CertificateAuthority.open(tmp_path / name).folder / "ca.pem" for name in ("a", "b")]
    (key, certificate), (_, other) = (
        path.read_bytes().split(b"-----BEGIN CERT", maxsplit=1) for path in paths
    )
    for text in (b"", key, key + b"-----BEGIN CERT" + other, key + b"-----BEGIN CERT" + b"A" * 500):
        write_private(paths[0], text)
        with pytest.raises(ConfigError, match=r"a/authority/ca\.pem: the authority cannot be used"):
            CertificateAuthority.open(tmp_path / "a")
    write_private(paths[0], key + b"-----BEGIN CERT" + certificate)
    CertificateAuthority.open(tmp_path / "a")


@pytest.mark.live
async def test_an_agent_does_not_start_on_what_others_may_use(tmp_path: Path) -> None:
    """The agent makes private files, whatever the mask says, and looks at each at each start."""
    job, state = a_job(), tmp_path / "state"
    before = os.umask(0)
    try:
        async with (
            fake_daemon() as daemon,
            agent_process(tmp_path, daemon.target, job=job) as agent,
        ):
            session = await daemon.live(hold(f"{job}/1/0/1", "-c", "exec sleep 600"))
            await session.claim(f"{job}/1/0/1", GRANTED)
            made = [name for name in PRIVATE if (state / name).exists()]
            assert {"agent.db", "agent.db-wal", "lrm", "lrm/jobs.sqlite3"} <= {*made}
            for name in made:
                check_private(state / name)
            await agent.kill()
            for name, mode in ((".", 0o020), ("claims", 0o020), *((name, 0o040) for name in made)):
                path = state / name
                path.chmod(path.stat().st_mode | mode)
                with pytest.raises(ConfigError) as refused:
                    check_state(state)
                if name == made[-1]:
                    await agent.start()
                    assert agent.process is not None
                    assert await patiently(agent.process.ended()) == 2
                    assert f"koala-agent: {refused.value}" in str(agent)
                assert str(refused.value).startswith(f"{path} has mode ")
                path.chmod(path.stat().st_mode & ~mode)
            await agent.start()
            assert f"{job}/1/0/1" in await (await daemon.session()).inventory()
    finally:
        os.umask(before)


def test_a_state_directory_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_state(tmp_path)
    check_state(tmp_path / "not there yet")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ConfigError, match=rf"owned by user id {os.getuid()} \(expected"):
        check_state(tmp_path)


# --- credentials ----------------------------------------------------------------------------------


def some(folder: Path, address: str = "koala.example.org:7740") -> Credentials:
    return Credentials(
        address=address,
        user="ann",
        token="told-to-nobody",
        authority=Forge(folder).identity("x").authority,
    )


def test_credentials_are_what_is_printed(tmp_path: Path) -> None:
    path = tmp_path / "ann.toml"
    found = some(tmp_path / "daemon")
    write_private(path, credentials_text(found).encode())
    read = read_credentials(path)
    assert (read.address, read.user, read.token) == (found.address, "ann", "told-to-nobody")
    assert read.authority == found.authority
    assert "told-to-nobody" not in repr(read)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = [", "not credentials"),
        ('token = "t"', r"ca is not a certificate"),
        ('token = 3\nca = "x"', r"token is unknown, or not a string"),
        ('tokne = "t"', r"tokne is unknown, or not a string \(expected the keys address"),
        ('ca = "-----BEGIN CERTIFICATE-----"', "token is not a token"),
        ('certificate = "ann.pem"\nca = "x"', "users show a token; ask an administrator"),
        ('ca = "-----BEGIN CERTIFICATE-----"\ntoken = "a b"', "token is not a token"),
    ],
)
def test_what_is_no_credentials_is_told(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "x.toml"
    write_private(path, text.encode())
    with pytest.raises(ConfigError, match=told):
        read_credentials(path)


def test_credentials_are_looked_for_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = some(tmp_path / "daemon", "127.0.0.1:7740")
    private_folder(tmp_path / "run")
    monkeypatch.setenv("KOALA_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("KOALA_CREDENTIALS", "KOALA_TOKEN", "KOALA_CA", "KOALA_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    assert find_credentials("127.0.0.1:7740") is None

    left = tmp_path / "administrator.toml"
    write_private(left, credentials_text(here).encode())
    assert announce("127.0.0.1:7740", credentials=left) is not None
    for address in ("127.0.0.1:7740", "localhost:7740"):
        found = find_credentials(address)
        assert found is not None
        assert (found.token, found.address) == ("told-to-nobody", address)
    assert find_credentials("koala.example.org:7740") is None
    assert find_credentials("127.0.0.1:7741") is None

    own = private_folder(tmp_path / "config" / "koala") / "credentials.toml"
    write_private(own, credentials_text(some(tmp_path / "daemon")).encode())
    assert AsyncClient().address == "koala.example.org:7740"
    found = find_credentials("koala.example.org:7740")
    assert found is not None
    assert found.source == str(own)
    found = find_credentials("127.0.0.1:7740")
    assert found is not None
    assert found.source == str(left), "the file is for another daemon"

    monkeypatch.setenv("KOALA_TOKEN", " t-2\n")  # as `$(cat FILE; echo)` and editors leave it
    monkeypatch.setenv("KOALA_CA", str(tmp_path / "ca.pem"))
    (tmp_path / "ca.pem").write_bytes(here.authority)
    found = find_credentials("127.0.0.1:7740")
    assert found is not None
    assert found.token == "t-2"

    monkeypatch.setenv("KOALA_CREDENTIALS", "plain")
    found = find_credentials("127.0.0.1:7740")
    assert found is not None
    assert found.is_plain
    left.chmod(0o644)
    monkeypatch.setenv("KOALA_CREDENTIALS", str(left))
    with pytest.raises(ConfigError, match="mode 0644"):
        find_credentials("127.0.0.1:7740")
