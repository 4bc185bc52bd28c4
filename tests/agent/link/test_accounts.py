"""Whose claims an agent takes."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from koala.errors import ConfigError
from koala_agent.accounts import Served, served
from koala_agent.config import parse_config

SITE = """
[agent]
site = "delft"
daemon = "localhost:7400"
state_dir = "state"
[site]
processors = 16
"""


def served_by(text: str) -> Served:
    return served(parse_config(SITE + text, source="delft.toml", folder=Path("/etc/koala")))


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        served_by(text)
    return str(caught.value)


def test_by_default_they_are_those_of_the_user_with_the_account_s_name() -> None:
    name = pwd.getpwuid(os.geteuid()).pw_name
    assert served_by("") == Served(users=(name,), key="accounts.user", owner=name)


def test_the_name_of_the_grid_user_may_be_another_than_the_account_s() -> None:
    ann = Served(users=("ann",), key="accounts.user", owner="ann")
    assert served_by("[accounts]\nuser = 'ann'") == ann
    assert served_by("owner = 'ann'\n[accounts]\nuser = 'ann'") == ann
    assert served_by("owner = 'ann'") == Served(users=("ann",), key="site.owner", owner="ann")


def test_they_are_everybody_s_only_where_that_is_said() -> None:
    assert served_by("[accounts]\nmode = 'anyone'") == Served(users=None, key="site.owner")
    narrowed = Served(users=("ann",), key="site.owner", owner="ann")
    assert served_by("owner = 'ann'\n[accounts]\nmode = 'anyone'") == narrowed


def test_two_words_about_whose_they_are_are_refused() -> None:
    told = refusal("owner = 'bob'\n[accounts]\nuser = 'ann'")
    assert told == (
        "delft.toml: site.owner = 'bob': allowed is the user whose claims are taken,"
        " accounts.user = 'ann'"
    )
    assert "accounts.user = 'ann'" in refusal("[accounts]\nmode = 'anyone'\nuser = 'ann'")
    assert "one of user, anyone" in refusal("[accounts]\nmode = 'all'")


def test_folders_of_programs_do_not_depend_on_where_the_agent_runs() -> None:
    assert "site.executables = 'apps': allowed is absolute" in refusal("executables = ['apps']")
