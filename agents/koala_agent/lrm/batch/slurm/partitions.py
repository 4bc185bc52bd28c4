"""Limits of partitions, associations and qualities of service, and reservations."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from koala.common.protocol.messages import Queue
from koala_agent.lrm.batch.slurm.queue import seconds_of
from koala_agent.lrm.dialect import Limits, is_count

NODES_FORMAT = "%P|%c|%D"
"""Partition, processors of a node and number of such nodes, for `sinfo -o`."""


def limits_of(
    partitions: str,
    nodes: str,
    associations: str,
    reservations: str,
    *,
    partition: str = "",
    account: str = "",
    qos: str = "",
    user: str = "",
) -> Limits:
    """Parse `scontrol show partition`, `sinfo`, `scontrol show assoc_mgr` and `scontrol show
    reservation`; `partition`, `account` and `qos` are those of all claims, `user` is who submits
    them. A limit that somebody else has is not ours: without a user no association counts."""
    records = [dict(words_of(line)) for line in partitions.splitlines()]
    own = _association_of(associations, account=account, user=user)
    queues = []
    ageing = math.inf
    for words in records:
        name = words.get("PartitionName", "")
        if not name:
            continue
        is_default = name == partition if partition else words.get("Default") == "YES"
        rules = [*own, *_qualities(associations, (qos, words.get("QoS", "")))]
        if is_default:
            ageing = min([ageing, *map(_ageing, rules)])
        queues.append(_queue(words, _sizes(nodes, name), rules, is_default=is_default))
    ours = {queue.name for queue in queues if queue.is_default}
    sizes = {one.get("PartitionName", ""): one.get("TotalNodes", "") for one in records}
    whole = min((int(sizes[name]) for name in ours if is_count(sizes[name])), default=0)
    closes_at = _closes_at(reservations, ours, whole)
    return Limits(queues=tuple(queues), closes_at=closes_at, ageing=ageing)


def words_of(line: str) -> Iterable[tuple[str, str]]:
    return re.findall(r"([A-Za-z/:]+)=(\S*)", line)


def _queue(
    words: Mapping[str, str],
    sizes: list[int],
    rules: list[Mapping[str, str]],
    *,
    is_default: bool,
) -> Queue:
    times = [_time(words.get("MaxTime", "")), *(_minutes(rule.get("MaxWallPJ")) for rule in rules)]
    longest_s = min(times)
    usual_s = min(longest_s, _time(words.get("DefaultTime", "")))
    hosts = min(_number(words.get("MaxNodes")), *(_most(rule, "node") for rule in rules), math.inf)
    processors = min(*(_most(rule, "cpu") for rule in rules), math.inf, math.inf)
    each = _number(words.get("MaxCPUsPerNode"))
    if hosts < len(sizes) or each < max(sizes, default=0):
        usable = sorted((min(size, each) for size in sizes), reverse=True)
        processors = min(processors, sum(usable[: int(min(hosts, len(sizes)))]))
    return Queue(
        name=words["PartitionName"],
        is_default=is_default,
        longest_s=_known(longest_s),
        usual_s=_known(usual_s),
        processors=int(_known(processors)),
        hosts=int(_known(hosts)),
    )


def _known(value: float) -> float:
    return value if value < math.inf else 0.0


def _time(text: str) -> float:
    return seconds_of(text) if text[:1].isdigit() else math.inf


def _minutes(text: str | None) -> float:
    return 60.0 * _number(text)


def _number(text: str | None) -> float:
    return float(text) if text and is_count(text) else math.inf


def _most(rule: Mapping[str, str], resource: str) -> float:
    """Return the most of a resource that a job may have by an association or a quality of service:
    by its own limit, and by that of all its jobs together."""
    found = [_number(part_of(rule.get(key, ""), resource)) for key in ("MaxTRESPJ", "GrpTRES")]
    return min(found)


def _ageing(rule: Mapping[str, str]) -> float:
    """Return the most jobs whose age grows while they wait."""
    keys = ("MaxJobsAccrue", "GrpJobsAccrue", "MaxJobsAccruePU", "MaxJobsAccruePA")
    return min(_number(rule.get(key, "").partition("(")[0]) for key in keys)


def part_of(text: str, resource: str) -> str:
    """Return the limit of a resource in `cpu=8(0),mem=N(0)`; empty for none."""
    found = re.search(rf"(?:^|,){resource}=([0-9]{{1,9}})(?:\(|,|$)", text)
    return "" if found is None else found[1]


def _sizes(nodes: str, partition: str) -> list[int]:
    """Return the processors of each node of a partition."""
    sizes: list[int] = []
    for line in nodes.splitlines():
        name, _, rest = line.strip().partition("|")
        size, _, count = rest.partition("|")
        if name.removesuffix("*") == partition and is_count(size) and is_count(count):
            sizes += [int(size)] * int(count)
    return sizes


def _association_of(text: str, *, account: str, user: str) -> list[Mapping[str, str]]:
    """Return the records that bind a user's jobs: the association with the account in use, or the
    default one, and those above it."""
    records = [dict(words_of(line)) for line in text.splitlines() if "Account=" in line]
    ours = [one for one in records if user and one.get("UserName", "").startswith(f"{user}(")]
    ours = [
        one
        for one in ours
        if not one.get("Partition")
        and (one.get("Account") == account if account else one.get("DefAssoc") == "Yes")
    ]
    found: list[Mapping[str, str]] = list(ours[:1])
    above = found[0].get("Account", "") if found else ""
    while above and len(found) <= len(records):
        group = next(
            (one for one in records if one.get("Account") == above and not one.get("UserName")),
            None,
        )
        if group is None:
            break
        found.append(group)
        above = group.get("ParentAccount", "").partition("(")[0]
    return found


def _qualities(text: str, names: tuple[str, ...]) -> list[Mapping[str, str]]:
    """Return the records of qualities of service by name."""
    records = [dict(words_of(line)) for line in text.splitlines() if line.startswith("QOS=")]
    return [
        one for one in records if any(name and one["QOS"].startswith(f"{name}(") for name in names)
    ]


def _closes_at(text: str, ours: set[str], whole: int) -> float:
    """Return when all nodes of our partitions go into maintenance next; infinite: never, as far as
    is known."""
    starts = []
    for line in text.splitlines():
        words = dict(words_of(line))
        flags, nodes = words.get("Flags", "").split(","), words.get("NodeCnt", "")
        is_whole = "ALL_NODES" in flags or (is_count(nodes) and int(nodes) >= whole > 0)
        is_ours = words.get("PartitionName", "(null)") in ("(null)", *ours)
        if "MAINT" in flags and is_whole and is_ours and is_count(words.get("StartTime", "")):
            starts.append(float(words["StartTime"]))
    return min(starts, default=math.inf)
