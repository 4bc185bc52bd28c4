"""Tables of the agent's configuration: keys, defaults and bounds.

Durations are in seconds, rates in bytes per second.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import msgspec

from koala.common.metrics.settings import MetricsTable
from koala.common.runtime.settings_file import (
    Endpoint,
    Megabytes,
    Positive,
    SiteText,
    Table,
    matching,
)
from koala_agent.lrm.batch_system import BatchSystem, LRMTable, find_system

Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Amount = Annotated[float, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Rate = Annotated[float, msgspec.Meta(gt=0)]
HOST = r"^[^\s:/]+$|^[0-9A-Fa-f:]+$"
A_HOST = "the name or address of a host, without a port"
HostText = Annotated[str, matching(rf"^$|{HOST}", A_HOST)]
UserText = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
AccountText = Annotated[str, matching(r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$", "the name of an account")]
HostNameText = Annotated[str, matching(r"^$|^[^\s-][^\s]*$", "a name for ssh", max_length=256)]
"""Name for ssh; one with a dash at its head would be an option."""
VariableText = Annotated[
    str, matching(r"^[A-Za-z_*][A-Za-z0-9_*]{0,127}$", "the name of a variable")
]
"""A variable of the environment, or several: * is any text."""


class AgentTable(Table, frozen=True):
    """Identity of this agent, its daemon and its state directory.

    A daemon that is silent for `silence_s` is disconnected and dialled again. With `plain` nothing
    is encrypted, and the daemon is on this machine. Work folders of ended and acknowledged claims
    are removed after `keep_s`. With less than `low_disk_mb` free at `state_dir` no new claim is
    accepted; a ballast file of `ballast_mb` there is deleted when a record finds no room at all.
    """

    site: SiteText
    daemon: Endpoint
    state_dir: str
    plain: bool = False
    silence_s: Annotated[float, msgspec.Meta(ge=0.2, le=3600)] = 15.0
    keep_s: Amount = 3600.0
    low_disk_mb: Megabytes = 32.0
    ballast_mb: Megabytes = 8.0
    log_level: Literal["debug", "info", "warning", "error"] = "info"


class SiteTable(Table, frozen=True):
    """Resources of the site, and its owner's limits.

    `address` is how other sites reach programs of this site; empty means the address from which
    their starters check in, and this machine for an emulated site. With `owner`, only this user's
    jobs see the site. `mips` is the speed of one processor, for placement by speed; `slots` bounds
    the claims that the site has at a time. `gpus` of an emulated site stand for real ones; those of
    a batch system that does not list GPUs are all that it has. With `executables`, programs must
    lie below these folders, and jobs may set no environment variables but `variables`.
    `tickets_max` bounds the claims that wait in the local queue for hours, `held_share_max` what
    those hold before the barrier. Processors are booked at most `booking_ahead_s` before the start;
    0: never. `ports_max` bounds the connections to ports of programs that go through the grid,
    `ports_rate` their bytes per second in all.
    """

    processors: Count
    grace_s: Positive = 5.0
    address: HostText = ""
    owner: str = ""
    longest_hold_s: Positive = math.inf
    largest_claim: Count | None = None
    tickets_max: Count | None = None
    held_share_max: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    booking_ahead_s: Annotated[float, msgspec.Meta(ge=0)] = 604_800.0
    ports_max: Annotated[int, msgspec.Meta(ge=0)] = 256
    ports_rate: Rate | None = None
    mips: Positive = 1000.0
    gpus: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    slots: Count | None = None
    executables: tuple[str, ...] = ()
    variables: tuple[VariableText, ...] = ()


class AccountsTable(Table, frozen=True):
    """Users whose claims are accepted, and the accounts that they run as.

    - Mode `user`: the claims of one grid user, by default the one with the account's name, run as
      the agent's own account.
    - Mode `anyone`: everybody's claims run as the agent's own account; for grids of a single person
      and for trials.
    - Mode `site`: the claims of the users in `map`, each as its account. The account's uid must be
      at least `uid_min`, or its name must be in `system`. `become` are the words before a command
      of an account, none for a root agent, which switches by itself.
    """

    mode: Literal["user", "site", "anyone"] = "user"
    user: str = ""
    map: dict[UserText, AccountText] = msgspec.field(default_factory=dict)
    uid_min: Annotated[int, msgspec.Meta(ge=1)] = 1000
    system: tuple[AccountText, ...] = ()
    become: tuple[str, ...] = ()


ACCOUNT_KEYS: dict[str, tuple[str, ...]] = {
    "user": ("user",),
    "site": ("map", "uid_min", "system", "become"),
    "anyone": (),
}
"""Valid keys of each mode."""


class LoadTable(Table, frozen=True):
    """Synthetic local users of an emulated site, before `lrm.speed`; no arrivals means none.

    Sizes are drawn from D(q) between `size_min` and `size_max` (8, or all processors when the site
    has fewer), run times are exponential.
    """

    arrivals_per_hour: Amount = 0.0
    run_mean_s: Positive = 600.0
    run_max_s: Positive = 36_000.0
    size_q: Positive = 0.9
    size_min: Count = 1
    size_max: Count | None = None
    estimate_factor_max: Annotated[float, msgspec.Meta(ge=1)] = 3.0
    waiting_max: Count = 100


class FilesTable(Table, frozen=True):
    """Logical files of the site, and how they are served.

    `store` is the folder of replicas, relative to the state directory. `serve` opens a port for
    other agents; without it copies go through the daemon's relay. `address` is the host at which
    they reach that port, if it is not the host in `serve`. `rate` limits every transfer in bytes
    per second, `rates` those with single sites. `added_mb` limits all files that users add with
    `koala files add`; none means no limit, and 0 that the site takes none.
    """

    store: str = "files"
    serve: Endpoint | None = None
    address: HostText = ""
    rate: Rate | None = None
    rates: dict[str, Rate] = msgspec.field(default_factory=dict)
    concurrent: Annotated[int, msgspec.Meta(ge=1, le=64)] = 4
    added_mb: Annotated[int, msgspec.Meta(ge=0)] | None = None


class StarterTable(Table, frozen=True):
    """Addresses at which starters reach this agent, and the interpreter that runs them on compute
    nodes.

    `addresses` are tried in turn; none means `listen`, or this machine's name. `port` 0 selects a
    free port, the same after each restart. Without a `shared` file system batch jobs carry
    everything that a starter needs, work in a folder of their own below `scratch`, and transfer
    files over the starter's connection. With line `files` nobody dials: messages go through the
    folder `mailbox`, which this machine (or the login node behind ssh) and the compute nodes share;
    a relative one begins at the home directory, none means one in the state directory.
    """

    listen: Annotated[str, msgspec.Meta(min_length=1)] = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    addresses: tuple[Annotated[str, matching(HOST, A_HOST)], ...] = ()
    python: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    shared: bool = True
    scratch: Annotated[str, matching(r"^$|^/[^\n]*$", "an absolute path")] = ""
    line: Literal["tcp", "files"] = "tcp"
    mailbox: Annotated[
        str, matching(r"^$|^[^~\n\0][^\n\0]*$", "a path without ~", max_length=1024)
    ] = ""


DIALLED_KEYS = ("listen", "port", "addresses")
"""Keys of the starter's table that mean something where starters dial the agent."""


class TransportTable(Table, frozen=True):
    """Access to the site's batch system: on this machine, or at a host by ssh.

    With kind `ssh` the agent runs anywhere. `host` is a name of your ssh configuration, which
    decides about user, keys, jump hosts; `options` are more words for ssh. `control` is the socket
    of a shared connection that you keep yourself (ControlPath); empty for one of the agent's own.
    `listen` is the address at which the host opens the port of the starters, "*" for all.
    """

    kind: Literal["local", "ssh"] = "local"
    host: HostNameText = ""
    options: tuple[str, ...] = ()
    control: str = ""
    listen: Annotated[str, matching(r"^\*$|" + HOST, f"* or {A_HOST}", min_length=1)] = "*"


TRANSPORT_KEYS: dict[str, tuple[str, ...]] = {
    "local": (),
    "ssh": ("host", "options", "control", "listen"),
}
"""Valid keys of each kind."""


class Config(Table, frozen=True):
    """The whole file. Metrics are served only with their table."""

    agent: AgentTable
    site: SiteTable
    accounts: AccountsTable = AccountsTable()
    lrm: LRMTable = LRMTable()
    load: LoadTable = LoadTable()
    files: FilesTable = FilesTable()
    starter: StarterTable = StarterTable()
    metrics: MetricsTable | None = None
    transport: TransportTable = TransportTable()

    @property
    def system(self) -> BatchSystem:
        """The record of its kind of local manager."""
        return find_system(self.lrm.kind)
