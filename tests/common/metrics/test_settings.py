"""The table `[metrics]`: off without it, loopback or protected, and errors that name the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from koala.common.runtime import software
from koala.daemon.config import parse_config
from koala.errors import ConfigError

DAEMON = '[daemon]\nstate_dir = "state"\n'


def parse(folder: Path, metrics: str) -> object:
    return parse_config(f"{DAEMON}[metrics]\n{metrics}", source="x.toml", folder=folder)


@pytest.mark.parametrize(
    "metrics",
    [
        'listen = "localhost:1"',
        'listen = "127.9.9.9:1"',
        'listen = "[::1]:1"',
        'listen = "0.0.0.0:1"\ninsecure = true',
        'listen = "node.example.org:1"\ntoken_file = "t"',
        'listen = "0.0.0.0:1"\ncertificate = "c"\nkey = "k"',
    ],
)
def test_loopback_is_free_and_other_addresses_are_protected(tmp_path: Path, metrics: str) -> None:
    parse(tmp_path, metrics)


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ("", "metrics.listen is missing"),
        ('listen = "x"', "metrics.listen = 'x' (expected"),
        ('listen = "127.0.0.1:65536"', "metrics.listen = '127.0.0.1:65536' (expected a port"),
        ('listen = "0.0.0.0:1"', "metrics.listen = '0.0.0.0:1' (expected a loopback address"),
        ('listen = "[::]:1"', "expected a loopback address"),
        (
            'listen = "127.0.0.1:1"\nrelay = "10.0.0.1:1"',
            "metrics.relay = '10.0.0.1:1' (expected a loopback address",
        ),
        ('listen = "127.0.0.1:1"\nkey = "k"', "metrics.key needs metrics.certificate"),
        ('listen = "127.0.0.1:1"\nsites_max = 0', "metrics.sites_max = 0 (expected int >= 1"),
        ('listen = "127.0.0.1:1"\nlisten_to = 1', "metrics.listen_to is unknown: did you mean"),
    ],
)
def test_an_error_names_the_key_and_what_is_allowed(
    tmp_path: Path, metrics: str, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(tmp_path, metrics)
    assert said in str(caught.value)


def test_a_missing_extra_is_told_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(software, "_is_there", lambda _package: False)
    with pytest.raises(ConfigError, match=r"\[metrics\] needs the extra: pip install '.*metrics"):
        parse(tmp_path, 'listen = "127.0.0.1:0"')
