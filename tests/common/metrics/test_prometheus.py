"""promtool checks what is shipped for Prometheus: its configuration, rules and alerts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.common.metrics.shipped import PROMETHEUS, alert_rules
from tests.harness.programs import needed_program

pytestmark = pytest.mark.long

LIMIT_S = 100.0


def program(name: str) -> str:
    """Find a program of Prometheus; skip the test where it is missing."""
    return needed_program(name, package="prometheus")


def promtool(*words: str, given: str = "", folder: Path = PROMETHEUS) -> str:
    """Run promtool; return what it printed."""
    run = subprocess.run(
        [program("promtool"), *words],
        cwd=folder,
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    return run.stdout


def test_promtool_accepts_configuration_and_rules() -> None:
    assert "SUCCESS" in promtool("check", "config", "prometheus.yml")
    assert f"{len(alert_rules())} rules found" in promtool("check", "rules", "koala-alerts.yml")


def test_the_alerts_pass_their_tests() -> None:
    assert "SUCCESS" in promtool("test", "rules", "koala-alerts-test.yml")
