"""Whose claims this agent takes, and as which account of this machine they run.

In user mode one grid user's, as the agent's own account. In site mode those of the users that the
configuration maps to accounts, each as its account: a command of an account is run by who may
become it (root by itself, another one by the site's means, such as sudo), from an argument vector.
Accounts are looked up once, when the agent starts, which whatever is doubtful about one refuses.

The daemon is told, so that it does not even show the site to others' jobs; the agent refuses their
claims all the same, because its own configuration wins over whatever a daemon asks.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from koala.errors import ConfigError
from koala_agent import FORK_SUPPORT
from koala_agent.config import AccountsTable, Config
from koala_agent.lrm.shell import Entry

CLIENT_VARIABLES = (
    "KOALA_ADDRESS",
    "KOALA_CA",
    "KOALA_CREDENTIALS",
    "KOALA_DEBUG",
    "KOALA_RUNTIME_DIR",
    "KOALA_TOKEN",
)
"""What clients read (docs/configuration.md); whoever starts an agent may be one, with a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account of this machine."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """`users` are the grid users whose claims are taken, None for everybody; `key` is what says so
    in the configuration. `owner` is told to the daemon, empty for none. `accounts` are the names of
    accounts by user, None where claims run as the agent's own; `entries` say how to become one of
    these."""

    users: tuple[str, ...] | None
    key: str
    owner: str = ""
    accounts: Mapping[str, str] | None = None
    entries: Mapping[str, Entry] = field(default_factory=dict)


def served(config: Config) -> Served:
    """Whom this configuration serves, and as whom. Raises ConfigError."""
    owner = config.site.owner
    match config.accounts.mode:
        case "anyone":
            users = (owner,) if owner else None
            return Served(users=users, key="site.owner", owner=owner)
        case "user":
            key = "accounts.user" if config.accounts.user or not owner else "site.owner"
            user = config.accounts.user or owner or own_name()
            return Served(users=(user,), key=key, owner=user)
        case "site":
            return _served_site(config)


def own_name() -> str:
    """The name of the account that this process runs as. Raises ConfigError."""
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        message = (
            f"accounts.user is missing, and the agent's own account (uid {number}) has no name:"
            " allowed is the name of the grid user whose claims are taken"
        )
        raise ConfigError(message) from None


def _served_site(config: Config) -> Served:
    table = config.accounts
    found = [(name, _look_up(name, table)) for name in sorted(set(table.map.values()))]
    if not table.become and os.geteuid() != 0:
        _refuse("become", (), f"how uid {os.geteuid()} becomes an account, since it is not root")
    if config.lrm.kind == "emulated" and os.geteuid() != 0:
        allowed = "another local manager: only root can start and end processes as others"
        _refuse("mode", table.mode, f"{allowed} (lrm.kind = 'emulated')")
    return Served(
        users=tuple(sorted(table.map)),
        key="accounts.map",
        owner=config.site.owner,
        accounts=dict(table.map),
        entries={name: _entry(account, table) for name, account in found},
    )


def _look_up(name: str, table: AccountsTable) -> Account:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        _refuse("map", name, "names of accounts that this machine knows (getent passwd)")
    if entry.pw_uid < table.uid_min and name not in table.system:
        allowed = f"accounts whose uid is at least accounts.uid_min = {table.uid_min}"
        _refuse("map", name, f"{allowed}; this is {entry.pw_uid}, and not in accounts.system")
    if entry.pw_uid == os.geteuid() and os.geteuid() != 0:
        _refuse("map", name, "accounts other than the agent's own, whose state is not theirs")
    return Account(
        name=name,
        uid=entry.pw_uid,
        gid=entry.pw_gid,
        groups=tuple(sorted(os.getgrouplist(name, entry.pw_gid))),
        home=entry.pw_dir,
        shell=entry.pw_shell,
    )


def _entry(account: Account, table: AccountsTable) -> Entry:
    environment = {
        "HOME": account.home,
        "USER": account.name,
        "LOGNAME": account.name,
        "SHELL": account.shell,
    }
    if table.become:
        prefix = tuple(word.replace("{account}", account.name) for word in table.become)
        return Entry(prefix=prefix, environment=environment)
    numbers = (f"--reuid={account.uid}", f"--regid={account.gid}")
    groups = f"--groups={','.join(map(str, account.groups))}"
    prefix = ("setpriv", *numbers, groups, "--")
    return Entry(prefix=prefix, environment=environment, is_own_process=True)


def _refuse(key: str, value: object, allowed: str) -> NoReturn:
    message = f"accounts.{key} = {value!r}: allowed is {allowed}"
    raise ConfigError(message)


def own_environment() -> dict[str, str]:
    """What programs under the agent's own account get of its environment where no batch system
    gives them theirs: all but what is for the agent, and for clients of whoever started it."""
    kept_back = (FORK_SUPPORT, *CLIENT_VARIABLES)
    return {name: value for name, value in os.environ.items() if name not in kept_back}
