"""The endpoint over real sockets: formats, what it refuses, and connections that do not end."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from koala.common.identity.private_files import write_private
from koala.common.metrics import declarations as m
from koala.common.metrics import endpoint as module
from koala.common.metrics.declarations import Source
from koala.common.metrics.endpoint import MetricsEndpoint
from koala.common.metrics.meter import Meter
from koala.common.metrics.readings import Readings
from koala.errors import ConfigError
from tests.common.metrics.certificates import make_certificate
from tests.common.metrics.scraping import (
    OPENMETRICS,
    WAIT_S,
    endpoint_at,
    get,
    openmetrics_families,
    value,
)


def registry_of(read: Callable[[], Readings] = Readings) -> CollectorRegistry:
    meter = Meter(Source.DAEMON, read=read)
    meter.add(m.CLAIMS_ASKED, "delft", by=3)
    meter.observe(m.START_SKEW, 0.003)
    return meter.registry


@pytest.fixture
def served(tmp_path: Path) -> Iterator[MetricsEndpoint]:
    with endpoint_at(tmp_path, registry_of()) as endpoint:
        yield endpoint


def test_both_formats_are_served(served: MetricsEndpoint) -> None:
    status, kind, text = get(served.url)
    assert (status, kind.partition(";")[0]) == (200, "text/plain")
    assert value(text, "koala_claims_asked_total", site="delft") == 3
    status, kind, text = get(served.url, headers={"Accept": OPENMETRICS})
    assert (status, kind.partition(";")[0]) == (200, "application/openmetrics-text")
    assert text.endswith("# EOF\n")
    assert "koala_claims_asked" in openmetrics_families(text)


def test_other_paths_and_methods_are_refused(served: MetricsEndpoint) -> None:
    assert get(served.url.removesuffix("/metrics") + "/")[0] == 404
    assert get(served.url + "/../../etc/passwd")[0] == 404
    assert get(served.url, method="POST")[0] == 405


def test_a_token_is_needed_where_one_is_set(tmp_path: Path) -> None:
    token = tmp_path / "token"
    write_private(token, b"first\n")
    with endpoint_at(tmp_path, registry_of(), token_file=str(token)) as endpoint:

        def status_of(shown: str | None) -> int:
            return get(endpoint.url, headers={"Authorization": shown} if shown else None)[0]

        shown = [None, "first", "Bearer", "Bearer firs", "Bearer first ", "Basic first"]
        assert [status_of(one) for one in shown] == [401, 401, 401, 401, 200, 401]
        assert status_of("Bearer first") == 200
        write_private(token, b"second\n")
        assert [status_of(f"Bearer {one}") for one in ("first", "second")] == [401, 200]
        token.unlink()
        assert status_of("Bearer second") == 401


def test_a_token_that_others_can_read_is_refused_at_the_start(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret", encoding="utf-8")
    token.chmod(0o644)
    with (
        pytest.raises(ConfigError, match="mode 0644"),
        endpoint_at(tmp_path, registry_of(), token_file=str(token)),
    ):
        pass


def test_tls_serves_a_renewed_certificate(tmp_path: Path) -> None:
    first, second = (make_certificate(tmp_path / name) for name in ("first", "second"))
    own, key = tmp_path / "own.pem", tmp_path / "own.key"

    def install(certificate: Path, private: Path) -> None:
        key.write_bytes(private.read_bytes())
        own.write_bytes(certificate.read_bytes())

    install(*first)
    settings = {"certificate": str(own), "key": str(key)}
    with endpoint_at(tmp_path, registry_of(), **settings) as endpoint:
        assert endpoint.url.startswith("https://")
        assert get(endpoint.url, ca=first[0])[0] == 200
        with pytest.raises(ssl.SSLError):
            get(endpoint.url, ca=second[0])
        own.write_bytes(second[0].read_bytes())  # half of a renewal
        assert get(endpoint.url, ca=first[0])[0] == 200
        install(*second)
        assert get(endpoint.url, ca=second[0])[0] == 200


def connected(endpoint: MetricsEndpoint, stack: ExitStack) -> socket.socket:
    """Open a connection."""
    host, _, port = endpoint.url.partition("//")[2].removesuffix("/metrics").rpartition(":")
    return stack.enter_context(socket.create_connection((host, int(port)), timeout=WAIT_S))


@pytest.mark.parametrize(
    "sent", [b"", b"\r\n", b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"\0" * 99]
)
def test_garbage_ends_its_connection_only(served: MetricsEndpoint, sent: bytes) -> None:
    with ExitStack() as stack:
        peer = connected(served, stack)
        peer.sendall(sent)
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(65_536):
            pass
    assert get(served.url)[0] == 200


def test_connections_are_bounded_and_silent_ones_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module._Handler, "timeout", 2 * WAIT_S)
    with endpoint_at(tmp_path, registry_of()) as endpoint, ExitStack() as stack:
        silent = [connected(endpoint, stack) for _ in range(module.CONNECTIONS_MAX)]
        for peer in silent:
            peer.sendall(b"GET /metrics HTTP/1.1\r\nX-Slow: ")
        silent.append(connected(endpoint, stack))
        assert silent.pop(0).recv(1) == b""  # the oldest gives way
        monkeypatch.setattr(module._Handler, "timeout", 0.01)
        silent.append(connected(endpoint, stack))
        assert [silent[0].recv(1), silent[-1].recv(1)] == [b"", b""]
