"""Find the credentials with which a user's client authenticates.

    address = "koala.example.org:7740"
    user = "ann"
    token = "..."
    ca = '''-----BEGIN CERTIFICATE----- ...'''

in a file that only its user can read. They are looked up in this order:

- the file that KOALA_CREDENTIALS names (or `plain`);
- KOALA_TOKEN, with the authority's certificate in the file that KOALA_CA names;
- the user's own file;
- the announcement of a daemon that the same user runs on this machine (`announce`). It also says
  if the daemon speaks plain text.

A variable that is set but empty or incomplete is an error: falling back would use another identity
than the one intended.
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

from koala.common.identity.private_files import private_folder, read_private, write_private
from koala.common.identity.tls import is_loopback
from koala.common.runtime.paths import SETTINGS_MAX, written_path
from koala.errors import ConfigError

FILE_VARIABLE = "KOALA_CREDENTIALS"
TOKEN_VARIABLE = "KOALA_TOKEN"
AUTHORITY_VARIABLE = "KOALA_CA"
RUNTIME_VARIABLE = "KOALA_RUNTIME_DIR"
PLAIN_WORD = "plain"
DIAL_S = 2.0
"""Time limit for a daemon on this machine to accept a connection. One whose queue is full
gets the next attempt after a second; where nobody listens the answer comes at once."""
KEYS = ("address", "user", "token", "ca")
_TOKEN = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Token to show to a daemon, and the authority that the daemon must have; empty: plain text."""

    address: str = ""
    user: str = ""
    token: str = field(default="", repr=False)
    authority: bytes = b""
    source: str = ""

    @property
    def is_plain(self) -> bool:
        """True for a daemon that speaks plain text and trusts the client's user name."""
        return not self.authority


PLAIN = Credentials(source="plain text")


def find_credentials(address: str | None) -> Credentials | None:
    """Find the credentials for the daemon at `address`; None when there are none.

    With None for `address` they are for the daemon of the user's own file, if there is one. Raises
    ConfigError.
    """
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
    own = own_file()
    if own.exists():
        credentials = read_credentials(own)
        if address is None or credentials.address == address:
            return _with_token(credentials, token)
    if token is not None:
        raise ConfigError(
            f"{TOKEN_VARIABLE} is set, and {AUTHORITY_VARIABLE} is not: it must name the file with"
            f" the daemon's authority, unless {own} or {FILE_VARIABLE} has it"
        )
    return None if address is None else _of_this_machine(address)


def default_address() -> str | None:
    """Return the address in the credentials file that would be used by default."""
    named = _variable(FILE_VARIABLE)
    if named == PLAIN_WORD:
        return None
    path = own_file() if named is None else written_path(named, key=FILE_VARIABLE)
    return (read_credentials(path).address or None) if named or path.exists() else None


def read_credentials(path: Path) -> Credentials:
    """Read a credentials file. Raises ConfigError, which never shows the contents."""
    try:
        tree = tomllib.loads(read_private(path).decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path}: not credentials (expected the output of `koala user add`)"
        ) from error
    return _of_tree(tree, path)


def credentials_text(credentials: Credentials) -> str:
    """Format a credentials file."""
    lines = (
        f"# Credentials of {credentials.user}. Whoever has them is {credentials.user}: keep them to"
        " yourself,",
        "# mode 0600, as ~/.config/koala/credentials.toml or where KOALA_CREDENTIALS says.",
        f'address = "{credentials.address}"',
        f'user = "{credentials.user}"',
        f'token = "{credentials.token}"',
        f'ca = """\n{credentials.authority.decode()}"""',
    )
    return "\n".join(lines) + "\n"


# --- daemons on this machine ----------------------------------------------------------------------


def announce(address: str, *, credentials: Path | None) -> Path | None:
    """Tell this user's clients on this machine how to reach the daemon at an address.

    `credentials` is the file to use, None for plain text. Returns the path of the announcement;
    None if it cannot be written.
    """
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
    """Return the addresses where daemons of this account serve on this machine.

    A killed daemon has not removed its announcement, so each is dialled. A daemon that listens
    everywhere has announced the machine's name, which need not resolve to this machine.
    """
    addresses = []
    for address in _announced():
        host, _, port = address.rpartition(":")
        here = [f"127.0.0.1:{port}"] if host == socket.gethostname() else []
        addresses += [place for place in (address, *here) if _is_taken(place)][:1]
    return addresses


def own_daemon(usual: str) -> str | None:
    """Return the address of the one daemon of this account on this machine; None when there is
    none.

    Of several it is the one at the usual port. Raises ConfigError.
    """
    addresses = own_daemons()
    port = usual.rpartition(":")[2]
    known = [address for address in addresses if address.rpartition(":")[2] == port] or addresses
    if len(known) > 1:
        raise ConfigError(
            f"several daemons of this account serve on this machine: {', '.join(known)}; say which"
            " one is meant with --address, or in KOALA_ADDRESS"
        )
    return known[0] if known else None


def _announced() -> list[str]:
    """Return the addresses that daemons of this account have announced on this machine."""
    addresses = []
    with contextlib.suppress(OSError, ConfigError):
        for path in sorted(_runtime_folder().glob("*.json")):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                addresses.append(str(json.loads(read_private(path))["address"]))
    return addresses


def _is_taken(address: str) -> bool:
    """Return True if a server listens on an address of this machine."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=DIAL_S):
            return True
    except (OSError, ValueError, OverflowError):
        return False


def _of_this_machine(address: str) -> Credentials | None:
    """Return the credentials that a daemon of this account has announced.

    A stale entry is harmless: it names a daemon that does not answer, or whose successor has
    another authority.
    """
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
    """Return this user's folder that does not survive a reboot. Raises ConfigError."""
    named = os.environ.get(RUNTIME_VARIABLE)
    if named:
        return private_folder(Path(named))
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return private_folder(Path(runtime) / "koala")
    # Not TMPDIR: a grid of one command gives its processes one of their own.
    return private_folder(Path("/tmp") / f"koala-{os.geteuid()}")


# --- parts ----------------------------------------------------------------------------------------


def write_credentials(path: Path, found: Credentials) -> None:
    """Write a credentials file that only its user can read. Raises ConfigError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, credentials_text(found).encode())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error


def own_file() -> Path:
    """Return the path of the user's own credentials file."""
    base = os.environ.get("XDG_CONFIG_HOME")
    try:
        folder = Path(base) if base else Path.home() / ".config"
    except RuntimeError:  # an account without a name and without HOME, as in containers
        folder = Path("/")
    return folder / "koala" / "credentials.toml"


def _variable(name: str) -> str | None:
    """Return the value of a variable without surrounding blanks; None when it is not set.

    `$(cat FILE)` and editors leave such blanks. Raises ConfigError.
    """
    value = os.environ.get(name)
    if value is not None and not (value := value.strip()):
        raise ConfigError(f"{name} is set, and empty: set it to something, or unset it")
    return value


def _check_token(token: str, source: str) -> None:
    """Raise ConfigError for a token that cannot be sent; the error does not show it."""
    if not _TOKEN.fullmatch(token):
        raise ConfigError(
            f"{source} is not a token (expected letters, digits and signs of ASCII without blanks,"
            " as `koala user add` prints it)"
        )


def _with_token(credentials: Credentials, token: str | None) -> Credentials:
    return credentials if token is None else replace(credentials, token=token)


def _read_authority(path: Path) -> bytes:
    try:
        with path.open("rb") as file:  # a device has no end
            authority = file.read(SETTINGS_MAX)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{AUTHORITY_VARIABLE} = {str(path)!r}: {why}") from error
    if not _is_certificate(authority):
        raise ConfigError(
            f"{AUTHORITY_VARIABLE} = {str(path)!r} (expected the daemon's authority, a"
            " certificate in PEM)"
        )
    return authority


def _is_certificate(text: bytes) -> bool:
    return text.strip().startswith(b"-----BEGIN CERTIFICATE-----")


def _of_tree(tree: Mapping[str, Any], path: Path) -> Credentials:
    if "certificate" in tree:
        raise ConfigError(
            f"{path}: certificate: users show a token; ask an administrator for new credentials:"
            " koala user add"
        )
    for key, value in tree.items():
        if key not in KEYS or not isinstance(value, str):
            raise ConfigError(
                f"{path}: {key} is unknown, or not a string (expected the keys {', '.join(KEYS)})"
            )
    authority = tree.get("ca", "").encode()
    if not _is_certificate(authority):
        raise ConfigError(
            f"{path}: ca is not a certificate (expected the daemon's authority, a certificate in"
            " PEM)"
        )
    token = tree.get("token", "").strip()
    _check_token(token, f"{path}: token")
    return Credentials(
        address=tree.get("address", ""),
        user=tree.get("user", ""),
        token=token,
        authority=authority,
        source=str(path),
    )
