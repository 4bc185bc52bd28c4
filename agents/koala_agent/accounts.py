"""Grid users whose claims the agent accepts, and the local account that each claim runs as.

In mode `user` the agent accepts the claims of one grid user and runs them as its own account. In
mode `site` it accepts the users that the configuration maps to accounts, and runs each claim as
that account: commands are argument vectors, prefixed with the words that become the account (none
for root, sudo or the like for others). Accounts are looked up when the agent starts and again from
time to time. A doubtful account stops the start. An unknown one does not, because it may be created
while the agent runs.

The daemon receives the list too, and hides the site from other users' jobs. The agent refuses their
claims all the same: its own configuration wins over any request of a daemon.
"""

from __future__ import annotations

import asyncio
import os
import pwd
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from koala.common.runtime.structured_log import get_logger
from koala.errors import ConfigError, LocalManagerError
from koala_agent.config_tables import AccountsTable, Config
from koala_agent.transport.shell import AccountSwitch

REFRESH_S = 30.0

log = get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Account of this machine."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedUsers:
    """Grid users whose claims are accepted, and their accounts.

    `users` None means everybody; `key` is the configuration key that says so. `owner` is sent to
    the daemon, empty for none. `accounts` maps users to account names, None where claims run as the
    agent's own account; `switches` say how to become an account.
    """

    users: tuple[str, ...] | None
    key: str
    owner: str = ""
    accounts: Mapping[str, str] | None = None
    switches: Mapping[str, AccountSwitch] = field(default_factory=dict)


class AccountSwitches(Mapping[str, AccountSwitch]):
    """Ways to become each mapped account, as this machine knows them.

    An account that is unknown or no longer usable raises LocalManagerError; the others are not
    affected. A lookup that no longer finds an account changes nothing: an unreachable directory
    service looks the same as a removed account.
    """

    def __init__(self, table: AccountsTable) -> None:
        """Look up all accounts. Raises ConfigError for a known account that may not be used."""
        self._table = table
        self._found: dict[str, AccountSwitch] = {}
        self._objections: dict[str, str] = {}
        for name in self:
            entry = _look_up(name, table)
            if entry is None:
                self._object(name, "this machine does not know it (getent passwd)")
            else:
                self._found[name] = _account_switch(entry, table)

    def __getitem__(self, account: str) -> AccountSwitch:
        if account in self._objections:
            raise LocalManagerError(self._objections[account], transient=True)
        return self._found[account]

    def __contains__(self, account: object) -> bool:
        return account in self._table.map.values()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(set(self._table.map.values())))

    def __len__(self) -> int:
        return len(set(self._table.map.values()))

    async def run(self) -> None:
        """Refresh the accounts periodically until cancelled, in a thread: lookups may be slow."""
        while True:
            await asyncio.sleep(REFRESH_S)
            await asyncio.to_thread(self.refresh)

    def refresh(self) -> None:
        """Refresh the accounts that have changed."""
        for name in self:
            try:
                account = _look_up(name, self._table)
            except ConfigError as error:
                self._object(name, str(error))
                continue
            if account is None:
                continue
            entry = _account_switch(account, self._table)
            if entry != self._found.get(name) or name in self._objections:
                self._found[name] = entry
                self._objections.pop(name, None)
                log.info("account.looked_up", account=name, uid=account.uid)

    def _object(self, name: str, objection: str) -> None:
        if self._objections.get(name) != objection:
            self._objections[name] = objection
            log.warning("account.rejected", account=name, reason=objection)


def accepted_users(config: Config) -> AcceptedUsers:
    """Derive the accepted users and their accounts from the configuration. Raises ConfigError."""
    owner = config.site.owner
    match config.accounts.mode:
        case "anyone":
            users = (owner,) if owner else None
            return AcceptedUsers(users=users, key="site.owner", owner=owner)
        case "user":
            key = "accounts.user" if config.accounts.user or not owner else "site.owner"
            user = config.accounts.user or owner or own_name()
            return AcceptedUsers(users=(user,), key=key, owner=user)
        case "site":
            return _mapped_users(config)


def own_name() -> str:
    """Return the name of the account of this process. Raises ConfigError."""
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        message = (
            f"accounts.user is missing, and the agent's own account (uid {number}) has no name"
            " (expected the name of the grid user whose claims are taken)"
        )
        raise ConfigError(message) from None


def _mapped_users(config: Config) -> AcceptedUsers:
    table = config.accounts
    switches = AccountSwitches(table)
    if not table.become and os.geteuid() != 0:
        _refuse("become", (), f"how uid {os.geteuid()} becomes an account, since it is not root")
    if config.system.is_emulated and os.geteuid() != 0:
        allowed = "another local manager: only root can start and end processes as others"
        _refuse("mode", table.mode, f"{allowed} (lrm.kind = {config.lrm.kind!r})")
    return AcceptedUsers(
        users=tuple(sorted(table.map)),
        key="accounts.map",
        owner=config.site.owner,
        accounts=dict(table.map),
        switches=switches,
    )


def _look_up(name: str, table: AccountsTable) -> Account | None:
    """Look up an account; None when this machine does not know it. Raises ConfigError."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
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


def _account_switch(account: Account, table: AccountsTable) -> AccountSwitch:
    environment = {
        "HOME": account.home,
        "USER": account.name,
        "LOGNAME": account.name,
        "SHELL": account.shell,
    }
    if table.become:
        prefix = tuple(word.replace("{account}", account.name) for word in table.become)
        return AccountSwitch(prefix=prefix, environment=environment)
    numbers = (f"--reuid={account.uid}", f"--regid={account.gid}")
    groups = f"--groups={','.join(map(str, account.groups))}"
    prefix = ("setpriv", *numbers, groups, "--")
    return AccountSwitch(prefix=prefix, environment=environment)


def _refuse(key: str, value: object, allowed: str) -> NoReturn:
    message = f"accounts.{key} = {value!r} (expected {allowed})"
    raise ConfigError(message)
