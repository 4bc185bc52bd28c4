"""Check a policy of your own: `python -m koala.policies.conformance NAME --slot SLOT`.

The check asks the policy many questions, drawn from a seed. An answer must be one that the daemon
would believe, come in time, be the same for the same question, also in a process with another hash
seed, and leave the question as it was.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from koala.common.protocol.ordering import QueuedJob
from koala.common.runtime.foreign.calls import FaultError, answer_of
from koala.common.runtime.foreign.guards import LIVE_LIMIT_S, Form
from koala.core.model.grid import (
    Demand,
    GridView,
    Part,
    PlacementRequest,
    Replica,
    SiteView,
)
from koala.core.model.progress_reports import MemberProgress, ProgressQuestion
from koala.core.model.values import FileName, Inputs, JobId, Priority, SiteName, UserName
from koala.core.policy_api import (
    ClaimQuestion,
    PendingPart,
    ReclaimableSite,
    TicketPart,
    TicketQuestion,
    Victim,
)
from koala.errors import ConfigError
from koala.policies import slot_named, unguarded
from koala.policies.placement.close_to_files import close_to_files
from koala.policies.slots import Slot

PROGRAM = "koala.policies.conformance"

QUESTIONS = 300
ANN, BOB = UserName("ann"), UserName("bob")
FILES = (FileName("data"), FileName("model"))
Question = Callable[[Random], tuple[Any, ...]]
"""Draws the arguments of a form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conformance:
    """Result of a check: the problems, each once, and a digest of all answers."""

    problems: tuple[str, ...]
    digest: str


def check_policy(
    slot: str,
    policy: Any,  # noqa: ANN401 - a function, or a record
    *,
    questions: int = QUESTIONS,
    seed: int = 1,
    limit_s: float = LIVE_LIMIT_S,
) -> Conformance:
    """Ask a policy, a function or a record, so many questions of its slot. Raises ConfigError if it
    cannot be one of the slot."""
    problems: dict[str, None] = {}
    answers = hashlib.sha256()
    for function, form, draw in _functions(slot_named(slot), policy):
        for number in range(questions):
            name = f"{seed}/{number}"
            try:
                first = _asked(function, form, draw, name, limit_s)
                again = _asked(function, form, draw, name, limit_s)
            except FaultError as fault:
                problems.setdefault(f"question {number} of seed {seed}: {fault}")
                if fault.is_timeout:
                    break  # the others take as long
                continue
            answers.update(repr(first[0]).encode())
            if first[0] != again[0]:
                text = f"answered {first[0]!r:.200}, and then {again[0]!r:.200}"
                problems.setdefault(f"question {number} of seed {seed}: not deterministic: {text}")
            if first[1]:
                problems.setdefault(f"question {number} of seed {seed}: changed its question")
    return Conformance(problems=tuple(problems), digest=answers.hexdigest())


def _functions(slot: Slot, policy: Any) -> Iterator[tuple[Callable[..., Any], Form, Question]]:  # noqa: ANN401
    """Yield the functions of a policy with the form and the questions of each."""
    if slot.record is not None and isinstance(policy, slot.record):
        for name, form in slot.record_forms.items():
            function = getattr(policy, name)
            if function is not None:
                yield function, form, QUESTIONS_OF[f"{slot.name}.{name}"]
        return
    form = slot.form_of(policy)
    yield policy, form, QUESTIONS_OF[f"{slot.name}/{len(form.arguments)}"]


def _asked(*question: Any) -> tuple[Any, bool]:  # noqa: ANN401 - see _asked_once
    """Return what `_asked_once` does; late once may be a machine that was busy."""
    try:
        return _asked_once(*question)
    except FaultError as fault:
        if not fault.is_timeout:
            raise
        return _asked_once(*question)


def _asked_once(
    function: Callable[..., Any], form: Form, draw: Question, name: str, limit_s: float
) -> tuple[Any, bool]:
    """Return the answer to a question, and if the policy has changed the question. What it takes
    from the view of the grid is no change: the view is its own."""
    arguments, read = form.pose(*draw(Random(name)))
    answer = answer_of(function, arguments, read, limit_s=limit_s)
    fresh, _ = form.pose(*draw(Random(name)))
    pairs = zip(arguments, fresh, strict=True)
    own = [pair for pair in pairs if not (isinstance(pair[0], GridView) or callable(pair[0]))]
    return answer, any(argument != asked for argument, asked in own)


# --- questions ---


def _names(random: Random) -> list[SiteName]:
    return [SiteName(f"s{n}") for n in range(random.randint(1, 6))]


def _view(random: Random, names: list[SiteName]) -> GridView:
    sites = []
    for name in names:
        processors = random.choice((1, 8, 32, 128))
        sites.append(
            SiteView(
                name=name,
                processors=processors,
                idle=random.randint(0, processors),
                owner=random.choice((None, None, None, BOB)),
                mips=random.choice((500.0, 1000.0)),
                slots=random.choice((None, None, 1, 3)),
                gpus=random.choice((0, 0, 4)),
            )
        )
    return GridView(
        sites,
        replicas={
            file: Replica(size_bytes=10**6, sites=tuple(random.sample(names, k=1)))
            for file in FILES[: random.randint(0, 2)]
        },
        bandwidth={(a, b): random.choice((1e3, 1e6)) for a in names for b in names[:2]},
        bandwidth_default=1e5,
        free={(names[0], names[-1]): 1e5},
    )


def _file(random: Random) -> Inputs | None:
    return random.choice((None, None, FILES[0], FILES))


def _demand(random: Random) -> Demand | None:
    demand = Demand(
        preferred_mips=random.choice((0.0, 800.0)),
        length_mi=random.choice((0.0, 1e5)),
        hint=random.choice(("", "cpu", "io")),
        deviation=0.5,
    )
    return random.choice((None, demand))


def placement_question(random: Random) -> tuple[PlacementRequest, GridView]:
    """Draw a question to a placement policy."""
    names = _names(random)
    view = _view(random, names)
    parts = tuple(
        Part(
            component=component,
            processors=random.choice((1, 2, 8, 40)),
            site=random.choice((None, None, None, names[0])),
            size_bytes=0 if (file := _file(random)) is None else 10**6,
            file=file,
        )
        for component in range(random.randint(1, 4))
    )
    request = PlacementRequest(
        parts=parts,
        user=ANN,
        transfer_s_max=random.choice((float("inf"), 0.0, 5.0)),
        demand=_demand(random),
        home=random.choice((None, names[0])),
    )
    return request, view


def claim_question(random: Random) -> tuple[Any, ...]:
    """Draw a question to a claiming policy."""
    names = _names(random)
    view = _view(random, names)
    own = [site.name for site in view.sites if site.admits(ANN)]
    pending = tuple(
        PendingPart(
            component=component,
            processors=random.choice((1, 2, 8, 40)),
            site=random.choice((None, *own)),
            fixed=None,
            size_bytes=0,
            is_optional=random.random() < 0.2,
        )
        for component in range(random.randint(1, 4))
    )
    held = random.randint(0, 2)
    is_high = random.random() < 0.5
    victims = tuple(
        Victim(job=JobId(f"j{n}"), start_at=100.0 - n, held=((random.choice(names), 8),))
        for n in range(random.randint(0, 3))
    )
    question = ClaimQuestion(
        components=held + len(pending),
        held=held,
        pending=pending,
        user=ANN,
        priority=Priority.HIGH if is_high else Priority.LOW,
        remaining_s=random.choice((0.0, 30.0)),
        threshold=random.choice((0.0, 0.5, 1.0)),
        preempt=random.choice(("complete", "component", "none")),
        held_at=tuple(random.choice(names) for _ in range(held)),
        victims=victims if is_high else (),
        preemptible=tuple(own[:2]) if is_high else (),
    )
    return question, view, close_to_files


def timed_claim_question(random: Random) -> tuple[Any, ...]:
    """Draw the same for a job with a deadline, at which local jobs may be killed."""
    question, view, place = claim_question(random)
    if random.random() < 0.5:
        return question, view, place
    local = tuple(
        ReclaimableSite(site=site.name, idle=site.idle, local=random.randint(0, 8))
        for site in view.sites
        if site.admits(ANN)
    )
    return replace(question, reclaimable=local), view, place


def order_question(random: Random) -> tuple[QueuedJob]:
    """Draw a waiting job."""
    return (
        QueuedJob(
            user=random.choice((ANN, BOB)),
            processors=random.choice((1, 8, 10_000)),
            estimate_s=random.choice((0.0, 60.0, 1e6, float("inf"))),
            waited_s=random.choice((0.0, 60.0, 1e6)),
            components=random.randint(1, 4),
            priority=random.choice((0, 1)),
            held=random.choice((0, 64)),
        ),
    )


def turn_question(random: Random) -> tuple[int, int]:
    """Draw the number of a scan, and S."""
    return random.choice((0, 1, 2, 3, 10**9)), random.choice((1, 2, 1000))


def queue_order_question(random: Random) -> tuple[Any, ...]:
    """Draw a departure from several queues."""
    local = tuple(_names(random)) if random.random() < 0.8 else ()
    common = ("",) if not local or random.random() < 0.7 else ()
    released = tuple(random.sample(local, k=random.randint(0, len(local))))
    queues = [*local, *common]
    disabled = tuple(random.sample(queues, k=random.randint(0, len(queues))))
    return local, common, released, disabled, random.random()


def permission_question(random: Random) -> tuple[Any, ...]:
    """Draw the lengths of several queues; the first of the arguments is one of them."""
    local = [range(random.choice((0, 1, 3))) for _ in range(random.randint(1, 4))]
    common = range(random.choice((0, 1, 3)))
    return random.choice((common, *local)), common, local


def progress_question(random: Random) -> tuple[ProgressQuestion]:
    """Draw the reports of a job's components."""
    members = []
    for component in range(random.randint(1, 5)):
        weight = random.choice((0.02, 0.5, 1.0))
        members.append(
            MemberProgress(
                component=component,
                virtual_s=random.uniform(0.0, 100.0),
                weight=weight,
                admitted=1.0,
                spare=1.0 - weight,
            )
        )
    question = ProgressQuestion(
        real_s=random.uniform(0.0, 100.0),
        members=tuple(members),
        asynchrony_s=random.choice((0.1, 5.0)),
        deviation_s=random.choice((1.0, float("inf"))),
        quanta=random.choice((1.0, 100.0)),
    )
    return (question,)


def ticket_question(random: Random) -> tuple[TicketQuestion]:
    """Draw the components of a job in the queues of busy sites, some of which hold."""
    parts: list[TicketPart] = []
    places = [
        (component, SiteName(f"site{place}"))
        for component in range(random.randint(1, 4))
        for place in range(random.choice((1, 1, 2)))
    ]
    for component, site in places:
        is_held = random.random() < 0.3 and all(part.component != component for part in parts)
        parts.append(
            TicketPart(
                component=component,
                site=site,
                is_optional=random.random() < 0.2,
                processors=random.choice((1, 8, 1000)),
                tickets=random.randint(0, 3),
                waited_s=random.choice((0.0, 60.0, 1e6)),
                held_s=random.choice((0.0, 11.0, 1e5)) if is_held else None,
                start_s=random.choice((None, 0.0, 100.0, 1e5)),
                files_s=random.choice((0.0, 0.0, 1e4)),
                is_known=random.random() < 0.8,
                given_back_s=random.choice((None, 0.0, 1e4)),
                can_gate=random.random() < 0.8,
                books=(books := random.random() < 0.3),
                begins_s=random.choice((None, -40.0, 1e4)) if books and not is_held else None,
                not_booked_s=random.choice((None, 60.0, -60.0)) if books else None,
            )
        )
    question = TicketQuestion(
        parts=tuple(parts),
        run_s=random.choice((60.0, 3600.0, float("inf"))),
        tickets_max=random.choice((1, 3)),
        slack_s=300.0,
        hold_min_s=600.0,
        hold_max_s=3600.0,
    )
    return (question,)


QUESTIONS_OF: dict[str, Question] = {
    "placement/2": placement_question,
    "claiming/3": claim_question,
    "deadlines/3": timed_claim_question,
    "tickets/1": ticket_question,
    "progress/1": progress_question,
    "queueing/1": order_question,
    "queueing/2": turn_question,
    "queueing.order": queue_order_question,
    "queueing.permits": permission_question,
}
"""Questions by slot and number of arguments, or function of a record."""


# --- the command ---


def main(arguments: list[str] | None = None) -> int:
    """Check the policy that the arguments name; return 1 if it has problems."""
    parser = argparse.ArgumentParser(prog=f"python -m {PROGRAM}", description=__doc__)
    parser.add_argument("name", help="name of the policy, or module:function")
    parser.add_argument("--slot", required=True)
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--digest", action="store_true", help="print the digest of the answers")
    options = parser.parse_args(arguments)
    try:
        policy = unguarded(options.slot, options.name)
        report = check_policy(options.slot, policy, questions=options.questions, seed=options.seed)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if options.digest:
        sys.stdout.write(f"{report.digest}\n")
        return 0
    problems = list(report.problems)
    if not problems and len({_digest_with(hash_seed, options) for hash_seed in "12"}) > 1:
        problems.append("the answers depend on the hash seed: is the order of a set in them?")
    for problem in problems:
        sys.stdout.write(f"{options.slot} = {options.name}: {problem}\n")
    if not problems:
        told = f"{options.questions} questions, no problem"
        sys.stdout.write(f"{options.slot} = {options.name}: {told}\n")
    return 1 if problems else 0


def _digest_with(hash_seed: str, options: argparse.Namespace) -> str:
    """Return the digest of the answers in a process with this hash seed."""
    numbers = ("--questions", str(options.questions), "--seed", str(options.seed))
    ran = subprocess.run(
        [sys.executable, "-m", PROGRAM, options.name, "--slot", options.slot, *numbers,
         "--digest"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return ran.stdout


if __name__ == "__main__":
    sys.exit(main())
