"""Settings of claims' folders and starters at a site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from koala.common.protocol.names import ClaimId
from koala_agent.claims.folder import folder_name
from koala_agent.placeholders.allowed_programs import NotAllowedError
from koala_agent.starter.batch_rules import BatchRules


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSettings:
    """Settings of claims' folders and starters at this site.

    Starters find the agent at the addresses `agents`, or by files in the folder `mailbox`.
    `root` holds a folder for each claim; compute nodes see it if it is `shared`, else they make
    folders in `scratch` (default: their own scratch). `python` None means the interpreter of
    this agent, for which the starter is compiled ahead; any other may be as old as Python 3.6.
    `rules` are those of the batch system for starters; `launcher` starts an MPI program.
    `executables` are the folders of allowed programs, none: any; `variables` are the
    environment variables that jobs may set for them. `accounts` maps grid users to the accounts
    of their claims; None: the agent's own account.
    """

    root: Path
    site: str
    address: str = "127.0.0.1"
    agents: tuple[str, ...] = ("127.0.0.1",)
    mailbox: str = ""
    python: str | None = None
    rules: BatchRules = field(default_factory=BatchRules)
    launcher: tuple[str, ...] = ()
    executables: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    shared: bool = True
    scratch: str = ""
    accounts: Mapping[str, str] | None = None

    def account(self, user: str) -> str:
        """Return the account of a user's claims, empty for the agent's own. Raises NotAllowedError
        and never falls back: a claim of an earlier life may belong to a user who is no longer
        mapped."""
        if self.accounts is None:
            return ""
        if user not in self.accounts:
            raise NotAllowedError(f"a claim of {user or 'nobody'}: accounts.map has no account")
        return self.accounts[user]

    @property
    def shows_all(self) -> bool:
        """True when programs may read everything here that this agent may: any program, as its
        account, on its file system. Then collecting files for them discloses nothing."""
        return self.shared and self.accounts is None and not self.executables

    def folder(self, claim: ClaimId) -> Path:
        """Return the claim's folder."""
        return self.root / folder_name(claim)
