"""The simulator against a naive second implementation, task by task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from koala.lab.papers.synchronous.simulation.arrivals import other_tasks, qos_tasks, speeds
from koala.lab.papers.synchronous.simulation.run import simulate_tasks
from koala.lab.papers.synchronous.simulation.setting import Setting
from tests.lab.papers.simulations.synchronous.oracle import Grid

SMALL = Setting(
    machines=4, tasks=20, interarrival_s=60.0, duration_s=(300.0, 500.0), window_s=(10.0, 60.0)
)
"""So many tasks are enough for each case to differ from one without its option."""
CASES: dict[str, tuple[Setting, dict[str, Any]]] = {
    "SQ": (SMALL, {}),
    "QoS": (replace(SMALL, scheme="QoS"), {"scheme": "QoS"}),
    "crowded": (replace(SMALL, interarrival_s=5.0), {}),
    "crowded QoS": (replace(SMALL, interarrival_s=5.0, scheme="QoS"), {"scheme": "QoS"}),
    "sparse": (replace(SMALL, interarrival_s=300.0, tasks=12), {}),
    "beta": (replace(SMALL, interarrival_s=10.0, beta=0.4), {"beta": 0.4}),
    "hard": (replace(SMALL, partition="hard"), {"hard": True}),
    "hard QoS": (
        replace(SMALL, partition="hard", scheme="QoS"),
        {"hard": True, "scheme": "QoS"},
    ),
    "printed": (replace(SMALL, test="printed"), {"printed": True}),
    "demand": (replace(SMALL, dummy="demand"), {"from_start": False}),
    "fit": (replace(SMALL, interarrival_s=10.0, mapping="fit", tasks=30), {"fit": True}),
    "agreed": (replace(SMALL, release="agreed"), {"agreed_end": True}),
    "quantum": (replace(SMALL, quantum_s=0.25), {"quantum": 0.25}),
}


@pytest.mark.parametrize("name", CASES)
def test_both_implementations_tell_the_same_of_each_task(name: str) -> None:
    setting, options = CASES[name]
    seed = 7
    tasks = qos_tasks(setting, seed)
    local = other_tasks(setting, seed, "local")
    others = other_tasks(setting, seed, "best effort")
    found = simulate_tasks(setting, seed, speeds(setting, seed), tasks, local, others)
    expected = Grid(speeds(setting, seed), **options).run(tasks, list(local), list(others))
    assert len(found) == len(expected) == setting.tasks
    assert any(result is not None for result in expected)
    for outcome, result in zip(found, expected, strict=True):
        assert outcome.is_accepted == (result is not None)
        if result is None:
            continue
        ends, skews = result["ends"], result["skews"]
        assert isinstance(ends, list)
        assert isinstance(skews, list)
        assert outcome.machines == result["machines"]
        assert outcome.first_end_at == pytest.approx(min(ends), abs=1e-6)
        assert outcome.last_end_at == pytest.approx(max(ends), abs=1e-6)
        assert outcome.cycles == len(skews)
        assert outcome.skew_sum_s == pytest.approx(sum(skews), abs=1e-6)
        assert outcome.skew_max_s == pytest.approx(max(skews), abs=1e-6)
        assert outcome.conforming_cycles == result["near"]
        assert outcome.corrections == result["corrections"]
