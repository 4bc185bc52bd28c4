"""Records of jobs as the daemon gives them, for pictures of their course."""

from __future__ import annotations

from typing import Any

from koala.views.records.jobs import JobDetails
from tests.views.records import record_of


def job_of(phase: str = "Finished", **more: Any) -> JobDetails:
    """A job of two components, the first of which was tried twice."""
    parts = [
        {
            "component": index, "label": label, "processors": 2, "site": site, "claim_phase": None,
            "executable": "/bin/true", "start_type": "strict-barrier", "claimed_at": 103.0 + index,
            "passed_at": 106.0 + index / 100, "is_dropped": False, "refusal": "", "end": None,
        }
        for index, (label, site) in enumerate((("left", "delft"), ("right", "vu")))
    ]  # fmt: skip

    def claim(name: str, site: str, *, passed_at: float | None, wasted_s: float) -> dict[str, Any]:
        return {
            "claim": name, "site": site, "batch_job": "", "processors": 2, "asked_at": 101.0,
            "granted_at": 103.0, "passed_at": passed_at, "ended_at": 110.0, "end": "exited",
            "run_s": 1.0, "held_s": 2.0, "wasted_s": wasted_s,
        }  # fmt: skip

    plain = {
        "job": "j7", "name": "", "owner": "ann", "phase": phase, "priority": "low",
        "processors": 4, "components": 2, "sites": ["delft", "vu"], "programs": ["/bin/true"],
        "submitted_at": 100.0, "started_at": 106.01, "ended_at": 110.0, "attempts": 2,
        "reason": "", "queue": "low", "placement_tries": 1, "claiming_tries": 2, "deadline": None,
        "timeline": {
            "submitted_at": 100.0, "placed_at": 100.01, "claimed_at": 104.0, "start_at": 105.0,
            "started_at": 106.01, "ended_at": 110.0, "start_lateness_s": 1.01,
        },
        "parts": parts,
        "transfers": [
            {
                "file": "x", "source": "vu", "target": "delft", "components": ["left"],
                "started_at": 101.0, "told_at": 102.0, "is_done": True, "share": 1.0,
                "size_bytes": 5, "rate_bps": None, "left_s": 0.0,
            }
        ],
        "charges": [
            claim("j7/1/0/1", "leiden", passed_at=None, wasted_s=3.0),
            claim("j7/2/0/1", "delft", passed_at=106.0, wasted_s=0.0),
            claim("j7/2/1/1", "vu", passed_at=106.01, wasted_s=0.0),
        ],
        "setbacks": [
            {"attempt": 1, "at": 103.5, "sites": ["leiden"], "reason": "Placing: leiden failed"}
        ],
        "story": [[100.0, "submitted"], [105.5, "Releasing: released"]],
    }  # fmt: skip
    return record_of(JobDetails, plain | more)
