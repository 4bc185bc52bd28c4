"""A deadline, and parameters of long waits for it, for tests of jobs with a required start."""

from __future__ import annotations

from typing import Any

from koala.core.model.job_spec import Deadline

D = Deadline(at=100.0)
LONG_WAIT: dict[str, Any] = {"wait_s": 900.0, "deadline_fraction": 0.5, "lead_max_s": 2.0}
"""Tries are due from submission on, half the way to 98 (the deadline less lead_max_s) each."""
