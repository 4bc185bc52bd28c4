"""The simulation of docs/simulation.md a second time, without a thought of speed: one quantum after
the other, tags in plain dictionaries, the controller written down from the paper's figure 5.

It shares with koala.lab.papers.synchronous.simulation the tasks that it is given, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, inf

from koala.lab.papers.synchronous.simulation.arrivals import OtherTask, QosTask

SHARES = {"local": 0.4, "qos": 0.4, "best effort": 0.2}


@dataclass(eq=False)
class Sub:
    """A subtask."""

    order: float
    machine: Box
    weight: float
    admitted: float
    x: float
    need: float
    got: int = 0
    tag: float = 0.0
    ended: float | None = None

    @property
    def work(self) -> float:
        """Quanta that did something for it."""
        return min(self.got, self.need)


@dataclass(eq=False)
class Box:
    """A machine."""

    speed: float
    rest: dict[str, list[int]] = field(default_factory=lambda: {"local": [], "best effort": []})
    subs: list[Sub] = field(default_factory=list)
    flow_tags: dict[str, float] = field(default_factory=lambda: dict.fromkeys(SHARES, 0.0))
    flow_now: float = 0.0
    now: float = 0.0
    dummy: Sub | None = None
    agreed: list[tuple[float, float]] = field(default_factory=list)


@dataclass(eq=False)
class Grid:
    """All machines, and the options of a run."""

    speeds: list[float]
    scheme: str = "SQ"
    beta: float = 0.05
    quantum: float = 0.1
    hard: bool = False
    printed: bool = False
    from_start: bool = True
    fit: bool = False
    agreed_end: bool = False

    def run(  # noqa: C901 - a whole run at a glance
        self, qos: list[QosTask], local: list[OtherTask], others: list[OtherTask]
    ) -> list[dict[str, object] | None]:
        """Return the outcome of each task; None: refused."""
        self.boxes = [Box(speed) for speed in self.speeds]
        for box in self.boxes:
            self._settle(box)
        cycle_s = 100 * self.quantum
        results: list[dict[str, object] | None] = [None] * len(qos)
        live: list[tuple[QosTask, list[Sub], float]] = []
        next_qos = order = 0
        cycle = 0
        waiting = {"local": list(local), "best effort": list(others)}
        while next_qos < len(qos) or live:
            start = cycle * cycle_s
            for flow, tasks in waiting.items():
                while tasks and tasks[0].submitted_at <= start:
                    one = tasks.pop(0)
                    box = self.boxes[one.machine]
                    quanta = max(1, ceil(one.work_s / box.speed / self.quantum))
                    box.rest[flow].append(quanta)
            while next_qos < len(qos) and qos[next_qos].submitted_at <= start:
                task = qos[next_qos]
                next_qos += 1
                chosen = self._map(task, start)
                if chosen is None:
                    continue
                subs = []
                for box, weight in chosen:
                    x = weight * 40
                    need = x * task.duration_s / cycle_s
                    sub = Sub(order, box, weight, weight, x, need, tag=box.now)
                    order += 1
                    box.subs.append(sub)
                    box.agreed.append((start + task.duration_s, weight))
                    self._settle(box)
                    subs.append(sub)
                live.append((task, subs, start))
                results[task.number] = {
                    "machines": tuple(self.boxes.index(box) for box, _ in chosen),
                    "skews": [],
                    "near": 0,
                    "corrections": 0,
                }
            for box in self.boxes:
                before = len(box.subs)
                for nth in range(100):
                    self._quantum(box, start + (nth + 1) * self.quantum)
                if len(box.subs) < before:
                    self._settle(box)
            cycle += 1
            for task, subs, began in live:
                self._report(task, subs, cycle * cycle_s - began, results[task.number])
            for task, subs, _ in live:
                found = results[task.number]
                assert found is not None
                found["ends"] = [sub.ended for sub in subs]
            live = [one for one in live if any(sub.ended is None for sub in one[1])]
        return results

    def _map(self, task: QosTask, now: float) -> list[tuple[Box, float]] | None:
        def booked(box: Box) -> float:
            if self.agreed_end:
                return sum(weight for end, weight in box.agreed if end > now)
            return sum(sub.admitted for sub in box.subs)

        free = sorted(self.boxes, key=booked)
        found = []
        for relative in task.relative:
            for box in list(free):
                m = task.demand * relative / sum(task.relative)
                weight = m / box.speed / 40
                total = booked(box) + weight
                ok = total <= 1 if self.scheme == "QoS" else total < 1 + self.beta
                if ok and weight <= 1:
                    found.append((box, weight))
                    free.remove(box)
                    break
                if not self.fit:
                    return None
            else:
                return None
        return found

    def _settle(self, box: Box) -> None:
        if self.scheme == "QoS":
            return
        admitted = sum(sub.admitted for sub in box.subs)
        weight = (max(1.0, admitted) if self.from_start else admitted) - sum(
            sub.weight for sub in box.subs
        )
        if weight < 1e-12:
            box.dummy = None
        elif box.dummy is None:
            tag = box.now
            box.dummy = Sub(inf, box, weight, weight, inf, inf, tag=tag)
        else:
            self._set(box.dummy, weight)

    def _set(self, sub: Sub, weight: float) -> None:
        wait = max(0.0, sub.tag - sub.machine.now)
        sub.tag = sub.machine.now + wait * sub.weight / weight
        sub.weight = weight

    def _quantum(self, box: Box, ends_at: float) -> None:
        has = {
            "local": bool(box.rest["local"]),
            "qos": bool(box.subs) or box.dummy is not None,
            "best effort": bool(box.rest["best effort"]),
        }
        able = [flow for flow in SHARES if has[flow] or self.hard]
        if not able:  # an idle queue's virtual time is the last finish tag
            box.flow_now = max(box.flow_tags.values())
            return
        tags = {flow: max(box.flow_tags[flow], box.flow_now) for flow in able}
        flow = min(able, key=lambda one: tags[one])
        box.flow_now = tags[flow]
        box.flow_tags[flow] = tags[flow] + 1 / SHARES[flow]
        if flow == "qos":
            subs = [*box.subs, *([box.dummy] if box.dummy else [])]
            if not subs:
                return
            sub = min(subs, key=lambda one: (one.tag, one.order))
            box.now = sub.tag
            sub.tag += 1 / sub.weight
            sub.got += 1
            if sub.got >= sub.need:
                sub.ended = ends_at
                box.subs.remove(sub)
        elif box.rest[flow]:
            left = box.rest[flow].pop(0) - 1
            if left:
                box.rest[flow].append(left)

    def _report(
        self, task: QosTask, subs: list[Sub], rt: float, result: dict[str, object] | None
    ) -> None:
        assert result is not None
        cycle_s = 100 * self.quantum
        vts = {sub: sub.work / sub.x * cycle_s for sub in subs}
        skews = result["skews"]
        assert isinstance(skews, list)
        skews.append(max(vts.values()) - min(vts.values()))
        near = abs(sum(vts.values()) / len(vts) - rt) <= task.deviation_s
        assert isinstance(result["near"], int)
        result["near"] += near
        running = {sub: vt for sub, vt in vts.items() if sub.ended is None}
        if self.scheme == "QoS" or not running:
            return
        pp = sum(running.values()) / len(running)
        within = rt - task.deviation_s <= pp <= rt + task.deviation_s
        if within and not self.printed:
            fastest = max(running, key=lambda sub: running[sub])
            slowest = min(running, key=lambda sub: running[sub])
            if running[fastest] - running[slowest] <= task.asynchrony_s:
                return
            if running[fastest] - pp > pp - running[slowest] + 1e-9:
                towards, chosen = (rt, [fastest]) if running[fastest] > rt else (pp, list(running))
            else:
                towards, chosen = (rt, [slowest]) if running[slowest] < rt else (pp, list(running))
        else:
            towards, chosen = rt, list(running)
        if towards == rt and any(self._lacks(sub, running[sub], rt) for sub in chosen):
            towards, chosen = pp, list(running)
        wanted = [(sub, self._change(sub, running[sub], towards)) for sub in chosen]
        for sub, change in wanted:
            if abs(change) > 1e-12:
                self._set(sub, sub.weight + change)
                self._settle(sub.machine)
                assert isinstance(result["corrections"], int)
                result["corrections"] += 1

    def _lacks(self, sub: Sub, vt: float, rt: float) -> bool:
        dummy = sub.machine.dummy.weight if sub.machine.dummy else 0.0
        return -(vt - rt) * sub.weight / 100 > dummy

    def _change(self, sub: Sub, vt: float, towards: float) -> float:
        factor = (vt - towards) * sub.weight / 100
        if factor > 0:
            return -min(factor, max(0.0, sub.weight - 0.002 * sub.admitted))
        return min(-factor, sub.machine.dummy.weight if sub.machine.dummy else 0.0)
