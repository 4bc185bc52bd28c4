"""A configuration is right, or its error names the file, the key and what is allowed."""

from pathlib import Path

import pytest

from koala.daemon.config import parse_config, read_config
from koala.errors import ConfigError
from koala.policies import DEFAULTS

LEAST = '[daemon]\nstate_dir = "state"\n'


def test_the_least_configuration_has_defaults(tmp_path: Path) -> None:
    path = tmp_path / "daemon.toml"
    path.write_text(LEAST)
    config = read_config(path)
    assert config.daemon.listen == "127.0.0.1:7740"
    assert config.state_dir == tmp_path / "state"
    assert config.spool == tmp_path / "state" / "spool"
    assert config.is_open
    assert config.parameters.run_lease_s == 600.0


def test_everything_that_can_be_said_is_taken(tmp_path: Path) -> None:
    text = """
[daemon]
listen = "[::1]:0"
state_dir = "/var/lib/koala"
spool = "/scratch/spool"
open = true
[parameters]
claim_fraction = 0.5
run_lease_s = inf
high_scans_per_low = 3
[sites.delft]
[sites.leiden]
owner = "ada"
[links.bandwidth]
delft = { leiden = 1_000_000 }
[relay]
listen = "0.0.0.0:7741"
address = "koala.example.org"
bytes_per_s = 1e8
[bus]
url = "mqtt://localhost"
[policies]
"""
    text += "".join(f'{slot} = "{name}"\n' for slot, name in DEFAULTS.items())
    config = parse_config(text, source="x.toml", folder=tmp_path)
    assert config.spool == Path("/scratch/spool")
    assert config.parameters.claim_fraction == 0.5
    assert config.parameters.run_lease_s == float("inf")
    assert config.sites == {"delft": None, "leiden": "ada"}
    assert config.is_open
    assert config.links == (("delft", "leiden", 1_000_000.0),)
    assert config.bus_url == "mqtt://localhost"


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ('endpoint = "http://[::1]:4318/v1/traces"', "http://[::1]:4318/v1/traces"),
        ('endpoint = "https://c.example/v1/traces"', "https://c.example/v1/traces"),
        ('endpoint = "http://c.example"\ninsecure = true', "http://c.example"),
    ],
)
def test_traces_go_to_a_receiver_that_others_cannot_read(
    tmp_path: Path, keys: str, expected: str
) -> None:
    config = parse_config(f"{LEAST}[traces]\n{keys}\n", source="x.toml", folder=tmp_path)
    assert config.traces == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[daemon", "not TOML"),
        ("", r"\[daemon\] is missing"),
        ("[daemon]\n", "daemon.state_dir is missing"),
        (LEAST + 'listn = "x"\n', "daemon.listn is unknown: did you mean listen"),
        (LEAST + 'listen = "here"\n', r"daemon.listen = 'here' \(expected host:port, with"),
        (LEAST + 'listen = "a:99999"\n', r"daemon.listen = 'a:99999' \(expected a port"),
        (
            LEAST + "certificate_days = 0.001\n",
            r"daemon.certificate_days = 0.001 \(expected float >= 0.05",
        ),
        (LEAST + "beat_s = 10.0\n", r"silence_s = 15 \(expected at least 2 x daemon.beat_s = 20"),
        (LEAST + "[parameters]\nclaim_fracton = 1\n", "did you mean claim_fraction"),
        (LEAST + "[traces]\n", "traces.endpoint is missing"),
        (LEAST + '[traces]\nendpoint = "here:4318"\n', r"traces.endpoint = 'here:4318' \(expected"),
        (LEAST + '[traces]\nendpoint = "http://["\n', "traces.endpoint = 'http://"),
        (
            LEAST + '[traces]\nendpoint = "http://collector.example:4318/v1/traces"\n',
            r"traces.endpoint = .* \(expected https://, or a loopback address",
        ),
        (
            LEAST + "[parameters]\nclaim_fraction = 7.0\n",
            r"claim_fraction = 7.0 \(expected values",
        ),
        (LEAST + '[parameters]\nhold_s = "long"\n', r"parameters.hold_s = 'long' \(expected float"),
        (LEAST + "[parameters]\nhold_s = nan\n", "parameters.hold_s = nan"),
        (
            LEAST + '[policies]\nplacement = "XX"\n',
            r"policies.placement = 'XX' \(expected one of CF",
        ),
        (LEAST + "[sites.delft]\nowned = 1\n", "sites.delft.owned is unknown"),
        (LEAST + "[links.bandwidth]\na = { b = -1.0 }\n", "expected float > 0"),
        (LEAST + "[sites.delft]\nowner = 1\n", r"sites.NAME.owner \(expected str, got int"),
        (LEAST + 'log_level = "loud"\n', r"log_level = 'loud' \(expected one of debug, info"),
        (LEAST + "[sitess]\n", "sitess is unknown: did you mean sites"),
    ],
)
def test_a_wrong_one_is_explained(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"^x\.toml: ") as error:
        parse_config(text, source="x.toml", folder=tmp_path)
    assert error.match(said)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot be read"):
        read_config(tmp_path / "nowhere.toml")


def test_plain_text_stays_on_this_machine(tmp_path: Path) -> None:
    def parse(text: str) -> bool:
        return parse_config(LEAST + text, source="x.toml", folder=tmp_path).daemon.plain

    assert not parse("")
    assert parse('plain = true\nlisten = "127.0.0.1:0"\n[relay]\nlisten = "[::1]:0"\n')
    for text in (
        'listen = "0.0.0.0:7740"',
        'listen = "[::]:7740"',
        'listen = "koala.example.org:7740"',
        'listen = "127.0.0.1.example.org:7740"',
        '[relay]\nlisten = "10.0.0.1:0"',
    ):
        with pytest.raises(ConfigError, match=r"listen = .* \(expected a loopback address"):
            parse(f"plain = true\n{text}\n")
    with pytest.raises(ConfigError, match="plain text knows no certificates"):
        parse('plain = true\nagents = "127.0.0.1:0"\n')


def test_a_broker_needs_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koala.daemon.config.MQTT", ("no_such_package",))
    text = f'{LEAST}[bus]\nurl = "mqtt://localhost"\n'
    with pytest.raises(ConfigError, match=r"\[bus\] needs the extra: pip install .*\[mqtt\]"):
        parse_config(text, source="x.toml", folder=tmp_path)
