"""A second factor for the ssh server of the tests: a key, and a code that is valid once.

PAM asks for the code, as at most sites; the module is Debian's libpam-google-authenticator. Codes
are counted (RFC 4226), so no test waits for the next half minute.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.agent.transport.servers import a_server
from tests.harness.programs import needed_program
from tests.harness.ssh_server import SSHServer

PROMPT = "Verification code:"
SERVICE = "/etc/pam.d/sshd"
SETTINGS = """
AuthenticationMethods publickey,keyboard-interactive
LogLevel VERBOSE
LoginGraceTime {grace_s}
"""
DIGITS = 6


@dataclass(slots=True, kw_only=True)
class Codes:
    """A user's device, which shows the next code."""

    secret: bytes = field(default_factory=lambda: secrets.token_bytes(20))
    counter: int = 0

    def next(self) -> str:
        """Return a code that was never used."""
        self.counter += 1
        digest = hmac.digest(self.secret, self.counter.to_bytes(8, "big"), hashlib.sha1)
        at = digest[-1] & 0x0F
        number = int.from_bytes(digest[at : at + 4], "big") & 0x7FFFFFFF
        return f"{number % 10**DIGITS:0{DIGITS}}"

    def keep(self, path: Path) -> None:
        """Write the file of the server's side."""
        text = base64.b32encode(self.secret).decode()
        path.write_text(f'{text}\n" HOTP_COUNTER 1\n" WINDOW_SIZE 17\n', encoding="ascii")
        path.chmod(0o600)


@contextmanager
def a_server_that_asks(*, grace_s: int = 120) -> Iterator[tuple[SSHServer, Codes]]:
    """A running server that asks for a code after the key, and waits `grace_s` for it."""
    needed_program("google-authenticator", package="libpam-google-authenticator")
    codes = Codes()
    with a_server() as server:
        assert server.is_other, "only root can change what PAM asks"
        codes.keep(server.folder / "codes")
        service = server.folder / "pam"
        service.write_text(
            f"auth required pam_google_authenticator.so secret={server.folder}/codes user=root"
            " no_increment_hotp\n"  # a wrong code costs none
            "account required pam_permit.so\nsession required pam_permit.so\n",
            encoding="ascii",
        )
        server.mounts[SERVICE] = service
        config = server.folder / "sshd_config"
        text = config.read_text(encoding="utf-8")
        for line in ("UsePAM", "KbdInteractiveAuthentication"):
            text = text.replace(f"{line} no", f"{line} yes")
        config.write_text(text + SETTINGS.format(grace_s=grace_s), encoding="utf-8")
        server.cut()
        server.start()
        yield server, codes


def attempts(server: SSHServer) -> int:
    """Return the number of attempts to log in since the server was made."""
    return server.log().count("Partial publickey for ")
