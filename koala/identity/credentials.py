"""How a client shows who it is: the credentials of a user, and where they are found.

    address = "koala.example.org:7740"
    user = "ann"
    token = "..."                  or    certificate = "ann.pem" (relative to this file)
    ca = '''-----BEGIN CERTIFICATE----- ...'''

in a file that only its user can read. They are looked for in this order, for the daemon at the
address that was asked for: the file that KOALA_CREDENTIALS names (or `plain`); KOALA_TOKEN, with
the authority's certificate in the file that KOALA_CA names; the user's own file; what a daemon on
this machine, run by the same user, has left for its own user (`announce`). A daemon that speaks
plain text says so there, too. A variable that is set and says nothing, or not enough, is an error:
whoever set it meant somebody else than who would act without it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from koala.errors import ConfigError
from koala.identity.private_files import private_folder, read_private, write_private
from koala.identity.tls import Identity, is_loopback
from koala.runtime.paths import SETTINGS_MAX, written_path

FILE_VARIABLE = "KOALA_CREDENTIALS"
TOKEN_VARIABLE = "KOALA_TOKEN"
AUTHORITY_VARIABLE = "KOALA_CA"
RUNTIME_VARIABLE = "KOALA_RUNTIME_DIR"
PLAIN_WORD = "plain"
DIAL_S = 0.3
"""How long a daemon on this machine may take to accept a connection."""
KEYS = ("address", "user", "token", "certificate", "ca")
_TOKEN = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What is shown to a daemon: a token or a certificate; neither for plain text."""

    address: str = ""
    user: str = ""
    token: str = field(default="", repr=False)
    identity: Identity | None = None
    authority: bytes = b""
    source: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether the daemon speaks plain text and believes whom the client names."""
        return not self.authority


PLAIN = Credentials(source="plain text")


def find_credentials(address: str | None) -> Credentials | None:
    """Those for the daemon at `address` (None: the daemon of the user's own file, if there is one).
    None when there are none. Raises ConfigError."""
    named, token, authority = map(_variable, (FILE_VARIABLE, TOKEN_VARIABLE, AUTHORITY_VARIABLE))
    if token is not None:
        _check_token(token, TOKEN_VARIABLE)
    if named == PLAIN_WORD:
        return replace(PLAIN, address=address or "")
    if named is not None:
        return _with_token(read_credentials(written_path(named, key=FILE_VARIABLE)), token)
    if token is not None and authority is not None:
        return Credentials(
            token=token,
            authority=_read_authority(written_path(authority, key=AUTHORITY_VARIABLE)),
            source=authority,
        )
    if authority is not None:
        raise ConfigError(f"{AUTHORITY_VARIABLE} is set, and {TOKEN_VARIABLE} is not: set both")
    own = _own_file()
    if own.exists():
        found = read_credentials(own)
        if address is None or found.address == address:
            return _with_token(found, token)
    if token is not None:
        raise ConfigError(
            f"{TOKEN_VARIABLE} is set, and {AUTHORITY_VARIABLE} is not: it must name the file with"
            f" the daemon's authority, unless {own} or {FILE_VARIABLE} has it"
        )
    return None if address is None else _of_this_machine(address)


def default_address() -> str | None:
    """The address in the file that would be used, when nobody says another one."""
    named = _variable(FILE_VARIABLE)
    if named == PLAIN_WORD:
        return None
    path = _own_file() if named is None else written_path(named, key=FILE_VARIABLE)
    return (read_credentials(path).address or None) if named or path.exists() else None


def read_credentials(path: Path) -> Credentials:
    """Those in a file. Raises ConfigError, which never shows what is in it."""
    try:
        tree = tomllib.loads(read_private(path).decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path}: these are no credentials, as `koala user add` prints"
        ) from error
    return _of_tree(tree, path)


def credentials_text(found: Credentials, *, certificate: str = "") -> str:
    """A file's text; `certificate` is the path of the identity, where there is no token."""
    shown = f'certificate = "{certificate}"' if certificate else f'token = "{found.token}"'
    lines = (
        f"# Credentials of {found.user}. Whoever has them is {found.user}: keep them to yourself,",
        "# mode 0600, as ~/.config/koala/credentials.toml or where KOALA_CREDENTIALS says.",
        f'address = "{found.address}"',
        f'user = "{found.user}"',
        shown,
        f'ca = """\n{found.authority.decode()}"""',
    )
    return "\n".join(lines) + "\n"


# --- daemons on this machine ----------------------------------------------------------------------


def announce(address: str, *, credentials: Path | None) -> Path | None:
    """Tell this user's clients on this machine how to speak with the daemon that serves at an
    address: by these credentials, None for plain text. Where it is told; None if it cannot be."""
    try:
        path = _runtime_folder() / f"{address.rpartition(':')[2]}.json"
        document = {
            "address": address,
            "credentials": None if credentials is None else str(credentials),
        }
        write_private(path, json.dumps(document).encode())
    except (ConfigError, OSError):
        return None
    return path


def own_daemons() -> list[str]:
    """Where daemons of this account on this machine serve. One that was killed has not taken back
    what it announced, so each is dialled; one that listens everywhere has announced the name of the
    machine, which need not lead here."""
    found = []
    for address in _announced():
        host, _, port = address.rpartition(":")
        here = [f"127.0.0.1:{port}"] if host == socket.gethostname() else []
        found += [place for place in (address, *here) if _is_taken(place)][:1]
    return found


def own_daemon(usual: str) -> str | None:
    """Where the one daemon of this account on this machine serves; None when there is none. Of
    several it is the one at the port where daemons usually serve. Raises ConfigError."""
    found = own_daemons()
    port = usual.rpartition(":")[2]
    known = [address for address in found if address.rpartition(":")[2] == port] or found
    if len(known) > 1:
        raise ConfigError(
            f"several daemons of this account serve on this machine: {', '.join(known)}; say which"
            " one is meant with --address, or in KOALA_ADDRESS"
        )
    return known[0] if known else None


def _announced() -> list[str]:
    """Addresses that daemons of this account have announced on this machine."""
    found = []
    with contextlib.suppress(OSError, ConfigError):
        for path in sorted(_runtime_folder().glob("*.json")):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                found.append(str(json.loads(read_private(path))["address"]))
    return found


def _is_taken(address: str) -> bool:
    """Whether somebody listens at an address of this machine."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=DIAL_S):
            return True
    except (OSError, ValueError, OverflowError):
        return False


def _of_this_machine(address: str) -> Credentials | None:
    """What a daemon of ours has announced. A stale entry names a daemon that does not answer, or
    whose successor has another authority: neither does harm."""
    host, _, port = address.rpartition(":")
    is_here = is_loopback(address) or host == socket.gethostname()
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        path = _runtime_folder() / f"{port}.json"
        document = json.loads(read_private(path))
        if not (is_here or document["address"] == address):
            return None
        if document["credentials"] is None:
            return replace(PLAIN, address=address)
        return replace(read_credentials(Path(document["credentials"])), address=address)
    return None


def _runtime_folder() -> Path:
    """A folder of this user's that does not outlive the machine's run. Raises ConfigError."""
    named = os.environ.get(RUNTIME_VARIABLE)
    if named:
        return private_folder(Path(named))
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return private_folder(Path(runtime) / "koala")
    # Not TMPDIR: a grid of one command gives its processes one of their own.
    return private_folder(Path("/tmp") / f"koala-{os.geteuid()}")


# --- parts ----------------------------------------------------------------------------------------


def _own_file() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME")
    try:
        folder = Path(base) if base else Path.home() / ".config"
    except RuntimeError:  # an account without a name and without HOME, as in containers
        folder = Path("/")
    return folder / "koala" / "credentials.toml"


def _variable(name: str) -> str | None:
    """What it says, without the blanks around it that `$(cat FILE)` and editors leave; None when it
    is not set. Raises ConfigError."""
    said = os.environ.get(name)
    if said is not None and not (said := said.strip()):
        raise ConfigError(f"{name} is set, and empty: set it to something, or unset it")
    return said


def _check_token(token: str, source: str) -> None:
    """Whether it can be sent at all. Raises ConfigError, which does not show it."""
    if not _TOKEN.fullmatch(token):
        raise ConfigError(
            f"{source} is no token: allowed are letters, digits and signs of ASCII without blanks,"
            " as `koala user add` prints it"
        )


def _with_token(found: Credentials, token: str | None) -> Credentials:
    return found if token is None else replace(found, token=token, identity=None)


def _read_authority(path: Path) -> bytes:
    try:
        with path.open("rb") as file:  # a device has no end
            authority = file.read(SETTINGS_MAX)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{AUTHORITY_VARIABLE} = {str(path)!r}: {why}") from error
    if not _is_certificate(authority):
        raise ConfigError(
            f"{AUTHORITY_VARIABLE} = {str(path)!r}: allowed is the daemon's authority, a"
            " certificate in PEM"
        )
    return authority


def _is_certificate(text: bytes) -> bool:
    return text.strip().startswith(b"-----BEGIN CERTIFICATE-----")


def _of_tree(tree: Mapping[str, Any], path: Path) -> Credentials:
    for key, value in tree.items():
        if key not in KEYS or not isinstance(value, str):
            raise ConfigError(f"{path}: {key}: allowed are texts, and the keys {', '.join(KEYS)}")
    authority = tree.get("ca", "").encode()
    if not _is_certificate(authority):
        raise ConfigError(f"{path}: ca: allowed is the daemon's authority, a certificate in PEM")
    identity = None
    if certificate := tree.get("certificate"):
        place = path.parent / written_path(certificate, key=f"{path}: certificate")
        try:
            identity = Identity.read(place)
        except OSError as error:
            raise ConfigError(f"{path}: certificate = {certificate!r}: {error.strerror}") from error
    token = tree.get("token", "").strip()
    if token:
        _check_token(token, f"{path}: token")
    elif identity is None:
        raise ConfigError(f"{path}: there is neither a token nor a certificate in it")
    return Credentials(
        address=tree.get("address", ""),
        user=tree.get("user", ""),
        token=token,
        identity=identity,
        authority=authority,
        source=str(path),
    )
