"""Settings of the web process: where it listens, and how browsers reach it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from koala.common.identity.tls import is_loopback
from koala.errors import ConfigError

DEFAULT_LISTEN = "127.0.0.1:7780"
PORT_MAX = 65_535
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """Options of `koala web`. Raises ConfigError for wrong ones.

    - `listen`: HOST:PORT; without TLS a loopback address.
    - `public_url`: the address at which browsers see the pages, if a proxy is in between.
    - `certificate`, `key`: PEM files for TLS; without them the process speaks plain HTTP.
    - `link_file`: the file that gets each new sign-in link.
    - `results`: the folder below which results of simulations are looked for.
    - `journal`: the journal or state directory that the page `Replay` shows.
    """

    listen: str = DEFAULT_LISTEN
    public_url: str = ""
    certificate: Path | None = None
    key: Path | None = None
    link_file: Path | None = None
    results: Path | None = None
    journal: Path | None = None

    def __post_init__(self) -> None:
        host, port = self.place
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("--certificate and --key: give both, or neither")
        for name, path in (("--certificate", self.certificate), ("--key", self.key)):
            if path is not None and not path.is_file():
                raise ConfigError(f"{name} {path} (expected a PEM file that can be read)")
        if self.certificate is None and not is_loopback(f"{_bracketed(host)}:{port}"):
            raise ConfigError(
                f"--listen {self.listen} without --certificate and --key (expected a loopback"
                " address, since anybody on the way could read and change the pages)"
            )
        if self.results is not None and not self.results.is_dir():
            raise ConfigError(f"--results {self.results} (expected a folder that can be read)")
        if self.journal is not None and not self.journal.exists():
            raise ConfigError(
                f"--journal {self.journal} (expected a state directory, or a journal in it)"
            )
        _check_url(self.public_url)

    @property
    def place(self) -> tuple[str, int]:
        """Host and port; an IPv6 address is without its brackets. Raises ConfigError."""
        host, _, port = self.listen.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or int(port) > PORT_MAX:
            raise ConfigError(
                f"--listen {self.listen!r} (expected HOST:PORT, as in {DEFAULT_LISTEN}, with a port"
                f" of 0 to {PORT_MAX})"
            )
        return host.strip("[]"), int(port)

    @property
    def is_secure(self) -> bool:
        """True if browsers reach the pages over TLS."""
        return self.certificate is not None or self.public_url.startswith("https:")

    @property
    def base(self) -> str:
        """Path before all pages, without a slash at its end."""
        return urlsplit(self.public_url).path.rstrip("/")

    def hosts(self, port: int) -> frozenset[str]:
        """Values of the header `Host` that are answered, for the port that was bound."""
        named = {urlsplit(self.public_url).netloc} if self.public_url else set()
        host = _bracketed(self.place[0])
        names = {*LOOPBACK_NAMES} if is_loopback(f"{host}:{port}") else {host}
        default_port = 443 if self.certificate is not None else 80
        ports = [f":{port}", *([""] if port == default_port else [])]
        return frozenset(named | {name + one for name in names for one in ports})

    def address(self, port: int) -> str:
        """The address to open in a browser, without a slash at its end."""
        if self.public_url:
            return self.public_url.rstrip("/")
        scheme = "https" if self.certificate is not None else "http"
        return f"{scheme}://{_bracketed(self.place[0])}:{port}"


def _check_url(public_url: str) -> None:
    """Check `--public-url`. Raises ConfigError."""
    if not public_url:
        return
    found = urlsplit(public_url)
    is_whole = found.scheme in ("http", "https") and found.netloc and not found.username
    if not is_whole or found.query or found.fragment:
        raise ConfigError(
            f"--public-url {public_url!r} (expected an address as in"
            " https://grid.example.org/koala)"
        )
    if found.scheme == "http" and found.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise ConfigError(f"--public-url {public_url!r} (expected https, or a loopback address)")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
