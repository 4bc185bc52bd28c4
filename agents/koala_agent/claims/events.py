"""Events and outputs of the claim table.

Orders of the daemon (`messages`) are events as they are, except a Hold.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from koala.common.protocol import messages
from koala.common.protocol.names import ClaimId
from koala_agent.claims.folder import StarterRecord
from koala_agent.claims.settings import LeaseTimes
from koala_agent.claims.states import Claim
from koala_agent.lrm.local_manager import EndCause

# Events, besides the daemon's orders --------------------------------------------------------


class HoldOrdered(msgspec.Struct, frozen=True, kw_only=True):
    """Hold of the daemon, with the secret that a starter of this claim must prove. `shortage` is
    why the site can accept no new claim now, empty when it can. A booked one begins in
    `begins_in_s`."""

    hold: messages.Hold
    secret: str
    shortage: str = ""
    begins_in_s: float = 0.0


class WantedComplete(msgspec.Struct, frozen=True, kw_only=True):
    """Complete set of the claims that the daemon has named since Welcome."""

    claims: frozenset[str]


class LeasesSet(msgspec.Struct, frozen=True, kw_only=True):
    """Leases of the daemon's Welcome. A session has begun: pending requests are sent again."""

    leases: LeaseTimes


class CheckedIn(msgspec.Struct, frozen=True, kw_only=True):
    """A starter with the claim's secret has connected, for the first time or again, and reports all
    that it knows of itself."""

    claim: ClaimId
    nonce: str
    armed: messages.ArmNumber | None = None
    passed_at: float | None = None
    end: messages.ClaimEnd | None = None
    address: str = ""
    hosts: messages.Hosts = ()
    began_at: float | None = None


class StarterArmed(msgspec.Struct, frozen=True, kw_only=True):
    """The starter has promised not to abort before the Arm's deadline."""

    claim: ClaimId
    nonce: str
    number: messages.ArmNumber


class StarterPassed(msgspec.Struct, frozen=True, kw_only=True):
    """The starter has opened the barrier, at `passed_at` in the daemon's time."""

    claim: ClaimId
    nonce: str
    passed_at: float


class StarterEnded(msgspec.Struct, frozen=True, kw_only=True):
    """All processes of the claim have ended, as `end` says."""

    claim: ClaimId
    nonce: str
    end: messages.ClaimEnd


class StarterLost(msgspec.Struct, frozen=True, kw_only=True):
    """The connection of this starter was lost; the starter may reconnect."""

    claim: ClaimId
    nonce: str


class StarterSaid(msgspec.Struct, frozen=True, kw_only=True):
    """Message for the daemon, of the starter with this nonce; requests have the starter's own
    numbers."""

    nonce: str
    message: (
        messages.PathsReport
        | messages.PortsUsed
        | messages.Progress
        | messages.Ping
        | messages.KvPut
        | messages.KvGet
    )

    @property
    def claim(self) -> ClaimId:
        """Claim of the starter."""
        return self.message.claim


class SubmitFailed(msgspec.Struct, frozen=True, kw_only=True):
    """The batch job was not made, or the local manager did not accept it; after a transient error
    it may have.

    `kind` is whose fault that is, for an error that is not transient. FAILED: the site's. REFUSED:
    the manager works and refuses the job, or the job's own wishes (a queue, an account) may be the
    reason. UNEXECUTABLE: the job's, at every site. A retry makes no sense before `again_s`.
    """

    claim: ClaimId
    reason: str
    is_transient: bool
    kind: messages.EndKind = messages.EndKind.FAILED
    again_s: float = 0.0


class GateFailed(msgspec.Struct, frozen=True, kw_only=True):
    """The local manager did not gate or open the claim's batch job; it may have."""

    claim: ClaimId


class BatchUnlisted(msgspec.Struct, frozen=True, kw_only=True):
    """The local manager is complete again after a start and does not know this claim."""

    claim: ClaimId
    record: StarterRecord | None = None


class BatchFound(msgspec.Struct, frozen=True, kw_only=True):
    """The local manager, complete again after a start, lists a batch job of this claim that has not
    ended."""

    claim: ClaimId


class BatchEnded(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing is left of the batch job. `record` is its starter's record, if readable.
    `waited_for`: why it had not started when it was withdrawn, as the batch system says it."""

    claim: ClaimId
    cause: EndCause
    exit_status: int | None = None
    reason: str = ""
    record: StarterRecord | None = None
    waited_for: str = ""


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """The collection of outputs and logs is over; `reason` names missing ones, empty for none."""

    claim: ClaimId
    reason: str = ""


class Woken(msgspec.Struct, frozen=True, kw_only=True):
    """`wake_at` has come."""


FromDaemon: TypeAlias = (
    messages.TryPaths
    | messages.Arm
    | messages.Release
    | messages.Resize
    | messages.Pace
    | messages.Stop
    | messages.Acknowledge
    | messages.Pong
    | messages.KvAnswer
)
"""What the daemon says of a claim that it has ordered."""
Event: TypeAlias = (
    HoldOrdered
    | FromDaemon
    | WantedComplete
    | LeasesSet
    | CheckedIn
    | StarterArmed
    | StarterPassed
    | StarterEnded
    | StarterLost
    | StarterSaid
    | SubmitFailed
    | GateFailed
    | BatchUnlisted
    | BatchFound
    | BatchEnded
    | Collected
    | Woken
)

# Outputs -------------------------------------------------------------------------------------


class StoreClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Store the claim as it is now, before anything else is done."""

    claim: Claim


class Forget(msgspec.Struct, frozen=True, kw_only=True):
    """Drop the claim from the store; its name is kept, so that it never comes back."""

    claim: ClaimId


class Submit(msgspec.Struct, frozen=True, kw_only=True):
    """Queue the batch job of this claim; report only a failure, with SubmitFailed."""

    claim: Claim


class SetGate(msgspec.Struct, frozen=True, kw_only=True):
    """Gate the batch job of this claim, or open it; report only a failure, with GateFailed."""

    claim: ClaimId
    is_gated: bool


class Withdraw(msgspec.Struct, frozen=True, kw_only=True):
    """End or dequeue the batch job; report BatchEnded when nothing is left or never was."""

    claim: ClaimId


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """Tell the local manager that the starter has ended all, said so, and hung up. `is_gone`: it
    was the only machine's, so that no process is left."""

    claim: ClaimId
    is_gone: bool


class Collect(msgspec.Struct, frozen=True, kw_only=True):
    """Bring back the named outputs and the logs; report with Collected."""

    claim: Claim


class SendToDaemon(msgspec.Struct, frozen=True, kw_only=True):
    """Send a message if there is a session; otherwise the next inventory covers it."""

    message: messages.ToDaemon


class Adopted(msgspec.Struct, frozen=True, kw_only=True):
    """To a starter: you own this claim, with these leases. `clock` is what the agent has measured
    of the daemon's clock: instant, error and offset; it is that of machines with this `boot`."""

    leases: LeaseTimes
    clock: tuple[float, float, float] | None = None
    boot: str = ""


class Dismissed(msgspec.Struct, frozen=True, kw_only=True):
    """To a starter: you do not own this claim; stop and exit."""

    reason: str


class EndNoted(msgspec.Struct, frozen=True, kw_only=True):
    """To a starter: your end is stored; exit."""


ToStarter: TypeAlias = (
    Adopted
    | Dismissed
    | EndNoted
    | messages.TryPaths
    | messages.Arm
    | messages.Release
    | messages.Resize
    | messages.Pace
    | messages.Stop
    | messages.Pong
    | messages.KvAnswer
)


class SendToStarter(msgspec.Struct, frozen=True, kw_only=True):
    """Send a message to the starter with this nonce, if it is connected."""

    claim: ClaimId
    nonce: str
    message: ToStarter


Output: TypeAlias = (
    StoreClaim
    | Forget
    | Submit
    | SetGate
    | Withdraw
    | Left
    | Collect
    | SendToDaemon
    | SendToStarter
)
