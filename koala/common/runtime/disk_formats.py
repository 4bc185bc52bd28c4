"""Version numbers of all formats on disk; every reader of a file checks its number.

| written by | what | number |
| --- | --- | --- |
| daemon | `journal.db`: its tables, what is in them, and the state that a replay gives | JOURNAL |
| daemon | `notifications.db`: what is to be delivered | OUTBOX |
| daemon | `backup.json` of a backup | BACKUP |
| daemon | `authority/enrolments.json` (`format`) | ENROLMENTS |
| agent | `agent.db`: its tables and the JSON in them | CLAIMS |
| agent | `lrm/jobs.sqlite3` | LOCAL_JOBS |
| agent | `transfers/incoming/*.json` (`format`) | COPIES |

A database has its number in `PRAGMA user_version`. A file with another number is refused with a
remedy, which a test carries out; only a copy under way starts again instead.

**Raise the number of a format with every change after which a version of Koala would misread what
another one wrote.** For JOURNAL these are also changes after which the core decides differently
for the same events, or `koala.core.digest.digest` gives another digest for the same state
(`tests/core/test_digest.py` has a known one). Stored names are those of classes, of fields and of
values of enumerations (events have tags of their own, `koala.core.model.events.EVENTS`): to rename
one is such a change.

The protocol's version is in `koala.common.protocol.versions`. `endpoint`, `lock`, `agent.pid`,
`journal.mark` and `audit.jsonl` are lines without a number; `transfers/checksums.json` and
`lrm/gate-probe.json` may be lost at any time. `.koala/spec.json` of a claim needs none: the batch
job names the starter that was installed for it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Format:
    """A format by its name, the only number that is read, and what to do about another one."""

    name: str
    number: int
    remedy: str

    def refusal(self, number: int) -> str:
        """Explain why a file with this number cannot be used, and the remedy; empty when it can."""
        if number == self.number:
            return ""
        return f"{self.name} {number}: this version of Koala reads {self.number}. {self.remedy}"


MOVE_AGENT_STATE = (
    "move agent.db, agent.mark, the files agent.db-wal and agent.db-shm, and the folder lrm of the"
    " agent's state directory away, all of them together, and start the agent again"
)
_OF_AGENT = (
    "Drain the site until the version of Koala that wrote it has nothing left to do there (koala"
    f" site drain SITE --wait); then {MOVE_AGENT_STATE}"
)

JOURNAL = Format(
    "journal format",
    2,
    "Let the version of Koala that wrote it finish its jobs; then move the files journal.* out of"
    " the state directory, and start this one once with koala daemon CONFIG --init --accept-loss."
    " Users and sites stay",
)
OUTBOX = Format(
    "notifications format",
    1,
    "Move notifications.db out of the state directory: what it has is not delivered",
)
BACKUP = Format(
    "backup format", 1, "Put it back with koala restore of the version of Koala that made it"
)
ENROLMENTS = Format(
    "enrolments format",
    1,
    "Go on with the version of Koala that wrote it; or move the file away, start this one, and add"
    " users and sites again (koala user add, koala site add)",
)
CLAIMS = Format("claim store format", 1, _OF_AGENT)
LOCAL_JOBS = Format("job table format", 1, _OF_AGENT)
COPIES = Format("copy format", 1, "The copy starts again")
