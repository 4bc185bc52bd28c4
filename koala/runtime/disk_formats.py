"""Version numbers of all formats on disk; every reader of a file checks its number.

| written by | what | number |
| --- | --- | --- |
| daemon | `journal.db`: its tables, `PRAGMA user_version` | JOURNAL |
| daemon | the state saved in it, archived jobs, and what a replay of its events gives | CORE |
| daemon | `backup.json` of a backup | BACKUP |
| daemon | `authority/enrolments.json` (`format`) | ENROLMENTS |
| agent | `agent.db`: its tables and the JSON in them, `PRAGMA user_version` | CLAIMS |
| agent | `lrm/jobs.sqlite3`, `PRAGMA user_version` | LOCAL_JOBS |
| agent | `transfers/incoming/*.json` (`format`) | COPIES |
| agent | `.koala/spec.json` of a claim (`version`), for a starter of the same release | STARTER |

A file without a number has number 1. Raise a number whenever this release would misread
what an earlier one wrote, or the other way round. **Raise CORE with every change after which the
core decides differently for the same events, or `koala.views.digest.digest` gives
another digest for the same state** (also a word of a job's story), unless it is already higher than
that of the last release. `tests/daemon/storage/test_old_states.py` starts recorded state folders
of earlier releases and fails when this was forgotten. Before raising one, record the folders of the
last commit (`tests/states/record.py`).

Stored names are not names of Python classes or modules, but tags declared beside them:
`koala.core.snapshot.TAGS` (saved states and archived jobs), `koala.core.model.events.EVENTS`
(events), the `tag` of each state in `koala_agent.claims.states` and `koala_agent.lrm.job_table`.
Names of *fields*, of the attributes of `koala.core.state.State`, and values of enumerations are
written as they are: a rename raises the number and must still read the old name.

Protocol versions are declared elsewhere: `koala.protocol.versions`.
`endpoint`, `lock`, `agent.pid`, `journal.mark` and `audit.jsonl` are lines that all releases read
alike; `transfers/checksums.json` may be lost at any time.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format: the number that is written, and the oldest that is read.

    `earlier` is the advice for a file with an older number.
    """

    name: str
    newest: int
    oldest: int = 1
    earlier: str = "Let the release that wrote it go on"

    def refusal(self, found: int) -> str:
        """Explain why a file with this number cannot be used, and the remedy; empty when it can."""
        if self.oldest <= found <= self.newest:
            return ""
        known = f"{self.oldest} to {self.newest}" if self.oldest < self.newest else f"{self.newest}"
        says = f"{self.name} {found}: this release reads {known}"
        if found > self.newest:
            return f"{says}. A later release wrote it: go on with that one, or a later one yet"
        return f"{says}. An earlier release wrote it. {self.earlier}"


CORE = 3
"""Version of the core's decisions, see the module. 2: digests of state that 1 had saved differ
between its own releases. 3: saved states have queued jobs as rows, and descriptions beside them."""

JOURNAL = Format(
    name="journal format",
    newest=3,
    oldest=2,  # 2 has neither saved states nor an archive, and gets them when it is opened
    earlier=(
        "It is of a release without queue disciplines, whose past cannot be replayed. Let that"
        " release finish its jobs, then begin with an empty state directory: koala daemon"
        " CONFIG --init"
    ),
)
BACKUP = Format(name="backup version", newest=2)  # 1 has no checksums
ENROLMENTS = Format(name="enrolments format", newest=1)
CLAIMS = Format(name="claim store format", newest=3)  # 1 has no seal, and gets it; 2 has no null
LOCAL_JOBS = Format(name="job table format", newest=2)  # 1 has no seal, and gets it
COPIES = Format(name="copy format", newest=1)
STARTER = Format(name="starter format", newest=1)
