"""Runs that can be worked out by hand come out as they must."""

from __future__ import annotations

import pytest

from koala.lab.papers.synchronous.simulation.arrivals import OtherTask, QosTask
from koala.lab.papers.synchronous.simulation.run import simulate, simulate_tasks
from koala.lab.papers.synchronous.simulation.setting import Setting
from koala.lab.papers.synchronous.simulation.sharing import whole_quanta


def a_task(*, relative: tuple[float, ...] = (1.0,), demand: float = 4.0) -> QosTask:
    return QosTask(
        number=0,
        submitted_at=0.0,
        demand=demand,
        duration_s=1000.0,
        relative=relative,
        asynchrony_s=100.0,
        deviation_s=100.0,
    )


def forever(machine: int) -> OtherTask:
    return OtherTask(submitted_at=0.0, machine=machine, work_s=1e6)


def test_a_subtask_on_a_busy_machine_keeps_exact_pace() -> None:
    """With all queues busy and the dummy in its place, RT = VT and there is no skew."""
    found = simulate_tasks(
        Setting(machines=2), 1, [0.2, 0.4], [a_task(relative=(1.0, 1.0))],
        [forever(0), forever(1)], [forever(0), forever(1)],
    )[0]  # fmt: skip
    assert found.last_end_at == pytest.approx(1000.0, abs=5)
    assert found.skew_max_s < 5
    assert found.corrections == 0


def test_strict_admission_lets_a_lone_subtask_speed_away() -> None:
    """On an idle machine it gets every quantum: 4 % of 1 GHz for 1000 s are 200 s at 0.2 GHz."""
    setting = Setting(scheme="QoS", machines=1)
    found = simulate_tasks(setting, 1, [0.2], [a_task()], [], [])[0]
    assert found.last_end_at == pytest.approx(200.0, abs=0.11)


def test_a_rounding_error_costs_no_quantum() -> None:
    """4 % of 1 GHz for 1500 s are 1200 quanta of 0.1 s at 0.5 GHz; summed up they are a little
    more."""
    task = a_task()._replace(duration_s=1500.0)
    found = simulate_tasks(Setting(scheme="QoS", machines=1), 1, [0.5], [task], [], [])[0]
    assert found.last_end_at == pytest.approx(120.0, abs=0.01)
    assert whole_quanta(600.0000000000001) == 600
    assert whole_quanta(600.001) == 601


def test_control_reduces_the_skew_when_the_system_is_not_full() -> None:
    setting = Setting(tasks=40, interarrival_s=500.0)
    controlled = simulate(setting, 1)
    strict = simulate(Setting(tasks=40, interarrival_s=500.0, scheme="QoS"), 1)
    assert controlled["skew_eq2"] < strict["skew_eq2"] / 2
    assert controlled["qos_conformance"] > strict["qos_conformance"]
