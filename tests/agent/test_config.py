"""Configurations of an agent: right, or refused with file, key, value and what is allowed."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from koala.errors import ConfigError
from koala_agent.config import parse_config, read_config, read_configs
from koala_agent.config_tables import Config
from koala_agent.lrm.emulated.system import EmulatedTable
from koala_agent.site_access import mailbox_of

MINIMAL = """
[agent]
site = "delft"
daemon = "localhost:7400"
state_dir = "state"
[site]
processors = 16
"""


def parse(text: str) -> Config:
    return parse_config(text, source="delft.toml", folder=Path("/etc/koala"))


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return str(caught.value)


def test_six_lines_are_enough_and_folders_are_absolute() -> None:
    config = parse(MINIMAL)
    assert config.agent.state_dir == "/etc/koala/state"
    assert config.files.store == "/etc/koala/state/files"
    assert config.site.longest_hold_s == math.inf
    assert config.load.arrivals_per_hour == 0, "no synthetic local users unless asked for"


def test_every_key_can_be_set() -> None:
    config = parse("""
[agent]
site = "delft"
daemon = "[::1]:7400"
state_dir = "/var/lib/koala"
silence_s = 5
keep_s = 60
log_level = "debug"
[site]
processors = 68
grace_s = 2
address = "10.0.0.1"
owner = "anna"
longest_hold_s = 900
largest_claim = 32
executables = ["/opt/apps"]
variables = ["OMP_*"]
[accounts]
mode = "user"
user = "anna"
[lrm]
kind = "emulated"
discipline = "easy"
speed = 60.0
fault_rate = 0.1
seed = 7
[load]
arrivals_per_hour = 30.0
run_mean_s = 10
run_max_s = 100
size_q = 0.9
size_min = 1
size_max = 16
estimate_factor_max = 2
waiting_max = 10
[files]
store = "/data/koala"
serve = "0.0.0.0:0"
address = "files.delft.example.org"
rate = 1e6
rates = { utrecht = 5e5 }
concurrent = 2
[starter]
listen = "127.0.0.1:0"
python = "/usr/bin/python3"
""")
    assert isinstance(config.lrm, EmulatedTable)
    assert config.lrm.discipline == "easy"
    assert config.files.rates == {"utrecht": 5e5}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MINIMAL + "large_claim = 8", "site.large_claim is unknown: did you mean largest_claim?"),
        (MINIMAL + "grace_s = 'x'", "site.grace_s = 'x' (expected float, got str"),
        (MINIMAL + "grace_s = -1", "site.grace_s = -1 (expected float > 0.0"),
        (MINIMAL + "grace_s = inf", "site.grace_s = inf (expected a finite number"),
        (MINIMAL + "longest_hold_s = nan", "site.longest_hold_s = nan"),
        (MINIMAL + "largest_claim = 17", "site.largest_claim = 17 (expected at most"),
        (MINIMAL + "[lrm]\nkind = 'slurmm'", "lrm.kind = 'slurmm' (expected one of emulated"),
        (MINIMAL + "[files]\nrates = { a = -1 }", "files.rates = {'a': -1} (expected"),
        (MINIMAL + "executables = [3]", "site.executables[0] = 3 (expected str, got int"),
        (MINIMAL + "[files]\nserve = 'here:70000'", "expected a port from 0 to 65535"),
        (MINIMAL + "[load]\nsize_min = 9", "load.size_min = 9 (expected at most load.size_max"),
        (MINIMAL + "[load]\nsize_max = 17", "load.size_max = 17 (expected at most site"),
        (MINIMAL + "[tls]\nauthority = 'a'", "tls is unknown. Known are agent, site"),
        (MINIMAL + "[network]", "network is unknown. Known are agent, site"),
        (MINIMAL.replace("daemon", "deamon"), "agent.deamon is unknown: did you mean daemon?"),
        (MINIMAL.replace('daemon = "localhost:7400"', ""), "agent.daemon is missing"),
        (MINIMAL.replace("delft", "de lft"), "agent.site = 'de lft' (expected"),
        ("site = ", "not TOML"),
        ("", "[agent] is missing"),
        ("agent = 3", "agent = 3 (expected object"),
    ],
)
def test_a_wrong_configuration_names_key_value_and_what_is_allowed(
    text: str, expected: str
) -> None:
    message = refusal(text)
    assert message.startswith("delft.toml: ")
    assert expected in message


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    with pytest.raises(ConfigError, match=r"missing\.toml: cannot be read"):
        read_config(missing)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"binary\.toml"):
        read_config(binary)


def test_plain_text_stays_on_this_machine() -> None:
    plain = MINIMAL.replace("[site]", "plain = true\n[site]")
    assert parse(plain + '[files]\nserve = "127.0.0.1:0"').agent.plain
    for serve in ("0.0.0.0:7743", "[::]:0", "10.0.0.1:7743"):
        assert "expected a loopback address" in refusal(plain + f'[files]\nserve = "{serve}"')
    far = plain.replace("localhost:7400", "10.0.0.1:7740")
    assert "agent.daemon = '10.0.0.1:7740'" in refusal(far)


FAR = MINIMAL + '[lrm]\nkind = "slurm"\n[transport]\nkind = "ssh"\nhost = "atlas"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FAR.replace('host = "atlas"', ""), "transport.host = '' (expected a host"),
        (FAR.replace('"atlas"', '"-oProxyCommand=x"'), "transport.host = '-oProxyCommand=x'"),
        (FAR.replace('"atlas"', '"a b"'), "transport.host = 'a b'"),
        (FAR.replace('kind = "ssh"\n', ""), "transport.host means nothing with kind = 'local'"),
        (FAR.replace('"slurm"', '"emulated"'), "lrm.kind = 'emulated' (expected one of grid"),
        (FAR + "[starter]\nshared = true\n", "starter.shared = True (expected false"),
        (FAR + '[starter]\nlisten = "0.0.0.0"\n', "starter.listen = '0.0.0.0' (expected a loop"),
        (FAR + '[accounts]\nmode = "site"\nmap = { ann = "al" }\n', "accounts.mode = 'site'"),
        (
            FAR.replace('"slurm"', '"slurm"\ncommands_per_minute = 0'),
            "lrm.commands_per_minute = 0",
        ),
        (FAR + 'listen = ""\n', "transport.listen = ''"),
    ],
)
def test_what_means_nothing_behind_ssh_is_refused(text: str, said: str) -> None:
    assert said in refusal(text)


OTHER = FAR.replace('site = "delft"', 'site = "leiden"').replace('"state"', '"other"')


def files(folder: Path, *texts: str) -> list[Path]:
    """Write the files of the sites of one process."""
    paths = [folder / f"{number}.toml" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def test_several_sites_behind_ssh_may_have_one_agent_process(tmp_path: Path) -> None:
    configs = read_configs(files(tmp_path, FAR, OTHER))
    assert [config.agent.site for config in configs] == ["delft", "leiden"]
    assert len(read_configs(files(tmp_path, MINIMAL))) == 1


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ((FAR, MINIMAL), "1.toml: transport.kind = 'local' (expected ssh, for each site"),
        ((FAR, OTHER.replace("leiden", "delft")), "1.toml: agent.site = 'delft' (expected an"),
        (
            (FAR, OTHER.replace('"other"', '"state"')),
            "/state' (expected another one than",
        ),
    ],
)
def test_sites_of_one_process_are_behind_ssh_and_apart(
    tmp_path: Path, texts: tuple[str, str], said: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        read_configs(files(tmp_path, *texts))
    assert said in str(raised.value)


FILES = MINIMAL + '[starter]\nline = "files"\n'


def test_a_mailbox_is_where_login_node_and_compute_nodes_see_it() -> None:
    assert mailbox_of(parse(MINIMAL)) == ""
    near = parse(FILES)
    assert mailbox_of(near) == f"{near.agent.state_dir}/mailbox"
    given = parse(FILES + 'shared = false\nmailbox = "/home/ann/koala"\n')
    assert mailbox_of(given) == "/home/ann/koala/delft"
    assert mailbox_of(parse(FAR + '[starter]\nline = "files"\n')) == ".koala-mailbox/delft"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            FILES.replace("files", "pigeons"),
            "starter.line = 'pigeons' (expected one of tcp, files",
        ),
        (FILES + "shared = false\n", "starter.mailbox = '' (expected a folder"),
        (FILES + "port = 7750\n", "starter.port means nothing with starter.line = 'files'"),
        (FILES + 'mailbox = "~/koala"\n', "starter.mailbox = '~/koala'"),
        (
            MINIMAL + '[starter]\nmailbox = "/home/ann"\n',
            "starter.mailbox means nothing with starter.line = 'tcp'",
        ),
        (
            FILES + '[accounts]\nmode = "site"\nmap = { ann = "al" }\n',
            "starter.line = 'files' (expected tcp with accounts.mode = 'site'",
        ),
    ],
)
def test_what_cannot_go_by_files_is_refused(text: str, said: str) -> None:
    assert said in refusal(text)
