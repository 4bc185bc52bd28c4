"""One run, cycle by cycle: machines give out their quanta, subtasks report, the controller
corrects."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from koala.core.model.progress_reports import MemberProgress, ProgressQuestion
from koala.core.model.values import Instant, Seconds
from koala.lab.papers.synchronous.simulation.arrivals import (
    OtherTask,
    QosTask,
    other_tasks,
    qos_tasks,
    speeds,
)
from koala.lab.papers.synchronous.simulation.counting import Outcome, Record, tally
from koala.lab.papers.synchronous.simulation.setting import QOS, QUANTA, SHARES, Setting
from koala.lab.papers.synchronous.simulation.sharing import (
    LEFT,
    WEIGHT,
    Flow,
    Machine,
    QosQueue,
    whole_quanta,
)
from koala.lab.workload.random_streams import stream
from koala.policies import named
from koala.policies.progress.free import free
from koala.policies.progress.synchronous import is_within_windows, normalized_weight


def simulate(setting: Setting, seed: int, record: Record | None = None) -> dict[str, float]:
    """Simulate one run and return its metrics. `record` receives the outcome of each Grid QoS task,
    in order."""
    outcomes = simulate_tasks(
        setting,
        seed,
        speeds(setting, seed),
        qos_tasks(setting, seed),
        other_tasks(setting, seed, "local"),
        other_tasks(setting, seed, "best effort"),
    )
    for outcome in outcomes:
        if record is not None:
            record(outcome)
    return tally(outcomes)


def simulate_tasks(
    setting: Setting,
    seed: int,
    speeds_ghz: Sequence[float],
    qos: Sequence[QosTask],
    local: Sequence[OtherTask],
    best_effort: Sequence[OtherTask],
) -> list[Outcome]:
    """Simulate one run with these machines and tasks; return the outcome of each Grid QoS task, in
    order."""
    run = _Run(setting, seed, speeds_ghz)
    return run.run(qos, local, best_effort)


@dataclass(slots=True, eq=False)
class _Task:
    """An admitted Grid QoS task, and its counters, which are those of its outcome."""

    task: QosTask
    flows: list[Flow]
    machines: list[int]
    started_at: Instant
    cycles: int = 0
    conforming_cycles: int = 0
    synchronous_cycles: int = 0
    corrections: int = 0
    quanta: float = 0.0
    effective_quanta: float = 0.0
    skew_sum_s: Seconds = 0.0
    skew_max_s: Seconds = 0.0
    skew_first_end_s: Seconds | None = None

    @property
    def is_over(self) -> bool:
        return all(flow.ended_at is not None for flow in self.flows)

    @property
    def _has_end(self) -> bool:
        return any(flow.ended_at is not None for flow in self.flows)

    def count(
        self, virtual_s: Sequence[Seconds], real_s: Seconds, quanta: float, *, has_end: bool
    ) -> None:
        """Count a cycle, with the quanta of work done until now. A subtask that ended keeps the
        virtual time of its end. `has_end`: some subtask, of this task or another, ended in the
        cycle."""
        skew_s = max(virtual_s) - min(virtual_s)
        self.cycles += 1
        self.skew_sum_s += skew_s
        self.skew_max_s = max(self.skew_max_s, skew_s)
        if has_end and self.skew_first_end_s is None and self._has_end:
            self.skew_first_end_s = skew_s
        pivot_s = sum(virtual_s) / len(virtual_s)
        self.conforming_cycles += abs(pivot_s - real_s) <= self.task.deviation_s
        if skew_s <= self.task.asynchrony_s:
            self.synchronous_cycles += 1
            self.effective_quanta += quanta - self.quanta
        self.quanta = quanta

    def outcome(self) -> Outcome:
        ends = [flow.ended_at for flow in self.flows if flow.ended_at is not None]
        return refused(self.task)._replace(
            machines=tuple(self.machines),
            started_at=self.started_at,
            first_end_at=min(ends),
            last_end_at=max(ends),
            skew_first_end_s=self.skew_first_end_s or 0.0,
            **{name: getattr(self, name) for name in _COUNTERS},
        )


_COUNTERS = (
    *("cycles", "conforming_cycles", "synchronous_cycles", "corrections"),
    *("quanta", "effective_quanta", "skew_sum_s", "skew_max_s"),
)


def refused(task: QosTask) -> Outcome:
    """Return the outcome of a task that was not admitted."""
    return Outcome(
        task=task.number,
        submitted_at=task.submitted_at,
        demand=task.demand,
        duration_s=task.duration_s,
        subtasks=len(task.relative),
        asynchrony_s=task.asynchrony_s,
        deviation_s=task.deviation_s,
    )


class _Run:
    def __init__(self, setting: Setting, seed: int, speeds_ghz: Sequence[float]) -> None:
        self._setting = setting
        self._machines = [
            Machine(
                speed,
                qos=QosQueue(
                    is_controlled=setting.is_controlled, has_dummy=setting.dummy == "start"
                ),
                is_hard=setting.partition == "hard",
            )
            for speed in speeds_ghz
        ]
        self._booked = [0.0] * len(self._machines)
        self._changed: set[int] = set()
        """Machines at which a subtask began or ended since the last release."""
        self._agreed: list[list[tuple[Instant, float]]] = [[] for _ in self._machines]
        name = (
            "SQ-printed" if (setting.scheme, setting.test) == ("SQ", "printed") else setting.scheme
        )
        self._correct = named("progress", name) if setting.is_controlled else free
        self._mapping = stream(seed, "mapping")
        self._flows = 0
        self._live: list[_Task] = []

    def run(
        self,
        qos: Sequence[QosTask],
        local: Sequence[OtherTask],
        best_effort: Sequence[OtherTask],
    ) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}
        coming, local, best_effort = deque(qos), deque(local), deque(best_effort)
        cycle = 0
        while coming or self._live:
            now = cycle * self._setting.cycle_s
            while local and local[0].submitted_at <= now:
                machine, quanta = self._arrives(local.popleft())
                machine.local += quanta
            while best_effort and best_effort[0].submitted_at <= now:
                machine, quanta = self._arrives(best_effort.popleft())
                machine.best_effort += quanta
            self._release_weight(now)
            while coming and coming[0].submitted_at <= now:
                arrival = coming.popleft()
                outcomes[arrival.number] = refused(arrival)
                self._admit(arrival, now)
            cycle += 1
            if self._pass(now, cycle * self._setting.cycle_s):
                for ended in [one for one in self._live if one.is_over]:
                    outcomes[ended.task.number] = ended.outcome()
                    self._live.remove(ended)
        return [outcomes[task.number] for task in qos]

    # --- admission ---

    def _admit(self, task: QosTask, now: Instant) -> None:
        weights_on = self._place(task)
        if weights_on is None:
            return
        flows = []
        for index, weight in weights_on:
            agreed = weight * SHARES[QOS] * QUANTA
            needed = agreed * task.duration_s / self._setting.cycle_s
            flow = Flow(self._flows, weight=weight, agreed=agreed, needed=needed)
            self._flows += 1
            self._machines[index].qos.add(flow)
            self._machines[index].qos.update_dummy()
            self._booked[index] += weight
            self._changed.add(index)
            flows.append(flow)
            if self._setting.release == "agreed":
                self._agreed[index].append((now + task.duration_s, weight))
        self._live.append(_Task(task, flows, [index for index, _ in weights_on], now))

    def _place(self, task: QosTask) -> list[tuple[int, float]] | None:
        """Choose a machine and a normalised weight for each subtask; None refuses the task."""
        indices = sorted(range(len(self._machines)), key=self._booked.__getitem__)
        if self._setting.mapping == "random":
            self._mapping.shuffle(indices)
        found: list[tuple[int, float]] = []
        for nth, relative in enumerate(task.relative):
            candidates = indices if self._setting.mapping == "fit" else indices[nth : nth + 1]
            for index in candidates:
                weight = self._weight(task, relative, index)
                if self._has_room(index, weight):
                    found.append((index, weight))
                    if self._setting.mapping == "fit":
                        indices.remove(index)
                    break
            else:
                return None
        return found

    def _weight(self, task: QosTask, relative: float, index: int) -> float:
        return normalized_weight(
            task.demand,
            1 / self._machines[index].speed_ghz,
            relative,
            relative_sum=sum(task.relative),
            partition=100 * SHARES[QOS],
        )

    def _has_room(self, index: int, weight: float) -> bool:
        after = self._booked[index] + weight
        if weight > 1:
            return False
        if not self._setting.is_controlled:
            return after <= self._setting.capacity
        return after < self._setting.capacity

    def _release_weight(self, now: Instant) -> None:
        """Release admitted weight: as agreed, or for subtasks that have ended."""
        if self._setting.release == "agreed":
            for index, agreed in enumerate(self._agreed):
                self._agreed[index] = [one for one in agreed if one[0] > now]
                self._booked[index] = sum(weight for _, weight in self._agreed[index])
            return
        for index in self._changed:
            flows = self._machines[index].qos.flows.values()
            self._booked[index] = sum(flow.admitted for flow in flows)
        self._changed.clear()

    def _arrives(self, task: OtherTask) -> tuple[Machine, int]:
        """Return the machine and the quanta of a local or best-effort task."""
        machine = self._machines[task.machine]
        work_s = task.work_s / machine.speed_ghz
        return machine, max(1, whole_quanta(work_s / self._setting.quantum_s))

    # --- a cycle ---

    def _pass(self, began_at: Instant, now: Instant) -> bool:
        """Run all machines for a cycle; then process reports and corrections. Return True if a
        subtask has ended."""
        has_end = False
        for index, machine in enumerate(self._machines):
            ended = machine.run(QUANTA)
            for flow, quantum in ended:
                flow.ended_at = began_at + quantum * self._setting.quantum_s
            if ended:
                machine.qos.update_dummy()
                self._changed.add(index)
                has_end = True
        cycle_s = self._setting.cycle_s
        for task in self._live:
            real_s = now - task.started_at
            # As `Flow.delivered`, but of the last quantum a subtask may use only a part.
            done = [
                got if (got := flow.whole - flow.entry[LEFT]) < flow.needed else flow.needed
                for flow in task.flows
            ]
            virtual_s = [cycle_s * one / f.agreed for one, f in zip(done, task.flows, strict=True)]
            task.count(virtual_s, real_s, sum(done), has_end=has_end)
            if self._setting.is_controlled:
                self._control(task, virtual_s, real_s)
        return has_end

    def _control(self, task: _Task, virtual_s: Sequence[Seconds], real_s: Seconds) -> None:
        windows = task.task.asynchrony_s, task.task.deviation_s
        if self._setting.scheme == "SQ" and self._setting.test == "corrected":
            running = virtual_s
            if task.skew_first_end_s is not None:  # a subtask has ended
                flows = zip(virtual_s, task.flows, strict=True)
                running = [at for at, flow in flows if flow.ended_at is None]
            if not running or is_within_windows(
                running, real_s, asynchrony_s=windows[0], deviation_s=windows[1]
            ):
                return  # as the policy would find, after it was told of everybody
        machines = self._machines
        members = [
            MemberProgress(
                nth, virtual_s[nth], flow.entry[WEIGHT], flow.admitted, machines[index].qos.spare
            )
            for nth, (flow, index) in enumerate(zip(task.flows, task.machines, strict=True))
            if flow.ended_at is None
        ]
        question = ProgressQuestion(
            real_s=real_s,
            members=tuple(members),
            asynchrony_s=windows[0],
            deviation_s=windows[1],
            quanta=QUANTA,
        )
        for correction in self._correct(question):
            flow = task.flows[correction.component]
            queue = self._machines[task.machines[correction.component]].qos
            queue.change(flow, flow.weight + correction.weight)
            queue.update_dummy()
            task.corrections += 1
