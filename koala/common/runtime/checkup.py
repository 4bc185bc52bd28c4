"""Checks of what a program needs, for `koala doctor` and `koala-agent doctor`.

A check is a coroutine function that returns what it found, in words. It raises NotableError for a
warning, and any other KoalaError or an OSError for a need that is not met; the message says what to
do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

from koala.errors import KoalaError

Check = Callable[[], Awaitable[str]]
Show = Callable[["Finding"], None]
MARK_WIDTH = 8


class Result(StrEnum):
    """Result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class NotableError(KoalaError):
    """The need is met, but somebody should act."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Result of one check, in words."""

    check: str
    result: Result
    text: str

    @property
    def line(self) -> str:
        """The finding as a line of text; further lines of it are indented."""
        mark = self.result.upper() if self.result is Result.FAILED else self.result
        text = self.text.replace("\n", f"\n{' ' * MARK_WIDTH}")
        return f"{mark:<{MARK_WIDTH}}{self.check}: {text}"


async def examine(checks: Mapping[str, Check], show: Show) -> list[Finding]:
    """Make the checks in turn, show each finding, and return all; one that fails hides no other."""
    findings = []
    for name, check in checks.items():
        try:
            finding = Finding(check=name, result=Result.OK, text=await check())
        except NotableError as error:
            finding = Finding(check=name, result=Result.WARNING, text=str(error))
        except (KoalaError, OSError) as error:
            finding = Finding(check=name, result=Result.FAILED, text=str(error))
        except Exception as error:  # noqa: BLE001 - who looks for a cause gets no traceback
            text = (
                f"this check itself went wrong ({type(error).__name__}: {error}); please report it"
            )
            finding = Finding(check=name, result=Result.FAILED, text=text)
        show(finding)
        findings.append(finding)
    return findings


def is_well(findings: list[Finding]) -> bool:
    """Test that no check has failed."""
    return all(finding.result is not Result.FAILED for finding in findings)


def document(findings: list[Finding]) -> dict[str, object]:
    """Make the JSON document of findings."""
    return {"is_well": is_well(findings), "checks": [asdict(finding) for finding in findings]}
