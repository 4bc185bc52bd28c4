"""Whose claims this agent takes.

The daemon is told, so that it does not even show the site to others' jobs; the agent refuses their
claims all the same, because its own configuration wins over whatever a daemon asks.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass

from koala.errors import ConfigError
from koala_agent.config import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """`users` are the grid users whose claims are taken, None for everybody; `key` is what says so
    in the configuration. `owner` is told to the daemon, empty for none."""

    users: tuple[str, ...] | None
    key: str
    owner: str = ""


def served(config: Config) -> Served:
    """Whom this configuration serves. Raises ConfigError."""
    owner = config.site.owner
    if config.accounts.mode == "anyone":
        users = (owner,) if owner else None
        return Served(users=users, key="site.owner", owner=owner)
    key = "accounts.user" if config.accounts.user or not owner else "site.owner"
    user = config.accounts.user or owner or own_name()
    return Served(users=(user,), key=key, owner=user)


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
