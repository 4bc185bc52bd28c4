"""An agent takes claims of the accounts that its site maps, and no others."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from koala.errors import ConfigError, LocalManagerError
from koala_agent.accounts import AcceptedUsers, AccountSwitches, accepted_users
from koala_agent.config import parse_config
from tests.agent.accounts import need_root

SITE = """
[agent]
site = "delft"
daemon = "localhost:7400"
state_dir = "state"
[site]
processors = 16
"""


def users_of(text: str) -> AcceptedUsers:
    return accepted_users(parse_config(SITE + text, source="delft.toml", folder=Path("/etc/koala")))


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        users_of(text)
    return str(caught.value)


def test_by_default_they_are_those_of_the_user_with_the_account_s_name() -> None:
    name = pwd.getpwuid(os.geteuid()).pw_name
    assert users_of("") == AcceptedUsers(users=(name,), key="accounts.user", owner=name)


def test_they_are_everybody_s_only_where_that_is_said() -> None:
    assert users_of("[accounts]\nmode = 'anyone'") == AcceptedUsers(users=None, key="site.owner")
    narrowed = AcceptedUsers(users=("ann",), key="site.owner", owner="ann")
    assert users_of("owner = 'ann'\n[accounts]\nmode = 'anyone'") == narrowed


def test_two_words_about_whose_they_are_are_refused() -> None:
    told = refusal("owner = 'bob'\n[accounts]\nuser = 'ann'")
    assert told == (
        "delft.toml: site.owner = 'bob' (expected the user whose claims are taken,"
        " accounts.user = 'ann')"
    )
    assert "one of user, site, anyone" in refusal("[accounts]\nmode = 'all'")
    told = refusal("[accounts]\nmode = 'anyone'\nuser = 'ann'")
    assert told.endswith("accounts.user means nothing with mode = 'anyone' (expected none)")


def test_variables_are_names_or_patterns_beside_folders_of_programs() -> None:
    users_of("executables = ['/opt']\nvariables = ['OMP_*', 'SEED', '*_DEBUG']")
    assert "site.variables = ['SEED'] (expected none without" in refusal("variables = ['SEED']")
    for name in ("", "4SEED", "SEED=4", "A B", "A[BC]"):
        assert "site.variables" in refusal(f"executables = ['/opt']\nvariables = ['{name}']")


# Site mode ----------------------------------------------------------------------------------------


def site_mode(text: str, *, site: str = "") -> str:
    return f"{site}\n[accounts]\nmode = 'site'\n{text}\n"


def test_accounts_come_from_the_list_and_nowhere_else() -> None:
    need_root()
    found = users_of(site_mode("map = { ann = 'nobody', bob = 'nobody' }"))
    entry = pwd.getpwnam("nobody")
    assert (found.users, found.owner) == (("ann", "bob"), "")
    assert found.accounts == {"ann": "nobody", "bob": "nobody"}
    words = found.switches["nobody"].prefix
    assert words[0] == "setpriv"
    assert f"--reuid={entry.pw_uid}" in words
    assert f"--regid={entry.pw_gid}" in words
    assert "root" not in found.switches


def test_accounts_of_the_system_are_refused_unless_they_are_named_on_purpose() -> None:
    need_root()
    for name in ("root", "games"):
        told = refusal(site_mode(f"map = {{ ann = '{name}' }}"))
        assert f"accounts.map = '{name}' (expected accounts whose uid is at least" in told
        assert "accounts.uid_min = 1000" in told
        on_purpose = users_of(site_mode(f"map = {{ ann = '{name}' }}\nsystem = ['{name}']"))
        assert set(on_purpose.switches) == {name}


def test_an_account_that_is_made_later_needs_no_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that nobody knows is its claims' trouble alone. What was known stays so while a directory
    service is away, and follows what it says afterwards."""
    need_root()
    known = {"nobody": pwd.getpwnam("nobody")}
    monkeypatch.setattr(pwd, "getpwnam", known.__getitem__)
    monkeypatch.setattr(os, "getgrouplist", lambda _name, group: [group])
    switches = users_of(site_mode("map = { ann = 'nobody', bob = 'berta' }")).switches
    assert isinstance(switches, AccountSwitches)
    assert set(switches) == {"nobody", "berta"}
    assert "berta" in switches
    before = switches["nobody"]
    with pytest.raises(LocalManagerError, match=r"^this machine does not know it") as told:
        switches["berta"]
    assert told.value.transient

    def found(name: str, uid: int) -> pwd.struct_passwd:
        return pwd.struct_passwd((name, "x", uid, 100, "", f"/home/{name}", "/bin/sh"))

    known["berta"] = found("berta", 4001)
    switches.refresh()
    assert "--reuid=4001" in switches["berta"].prefix
    known["berta"] = found("berta", 4002)
    del known["nobody"]
    switches.refresh()
    assert "--reuid=4002" in switches["berta"].prefix
    assert switches["nobody"] == before
    known["berta"] = found("berta", 0)
    switches.refresh()
    with pytest.raises(LocalManagerError, match=r"^accounts\.map = 'berta' \(expected accounts"):
        switches["berta"]


def test_words_of_the_site_s_own_become_an_account() -> None:
    need_root()
    become = "become = ['sudo', '-n', '-u', '{account}', '--']"
    text = site_mode(f"map = {{ ann = 'nobody' }}\n{become}")
    found = users_of(f"{text}[lrm]\nkind = 'slurm'\n")
    assert found.switches["nobody"].prefix == ("sudo", "-n", "-u", "nobody", "--")
    told = refusal(text)
    assert "accounts.become = ['sudo', '-n', '-u', '{account}', '--'] (expected none with" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "accounts.map = {} (expected at least one grid user with its account"),
        ("map = { ann = '-x' }", "accounts.map"),
        ("map = { ann = 'a b' }", "accounts.map"),
        ("map = { '' = 'nobody' }", "accounts.map"),
        (
            "map = { ann = 'nobody' }\nuser = 'ann'",
            "accounts.user means nothing with mode = 'site'",
        ),
        ("map = { ann = 'nobody' }\nuid_min = 0", "accounts.uid_min = 0"),
        (
            "map = { ann = 'nobody' }\n[starter]\nshared = true",
            "starter.shared = True (expected false with accounts.mode = 'site'",
        ),
        ("map = { ann = 'nobody' }\nbecome = ['sudo']", "words of which one has {account} in it"),
    ],
)
def test_a_list_that_cannot_be_meant_is_refused(text: str, told: str) -> None:
    assert told in refusal(site_mode(text))


def test_the_owner_of_a_site_is_one_of_its_users() -> None:
    told = refusal(site_mode("map = { ann = 'nobody' }", site="owner = 'bob'"))
    assert "site.owner = 'bob' (expected a user of accounts.map" in told
