"""Job descriptions: whatever the text, a job that the rest of the system can hold, or a refusal."""

from __future__ import annotations

from random import Random
from typing import TypeAlias

import msgspec

from koala.common.protocol.codec import TO_AGENT
from koala.core.invariants import check as check_state
from koala.core.model.actions import ClaimProcessors
from koala.core.model.events import DaemonStarted, JobSubmitted
from koala.core.model.parameters import Parameters
from koala.core.model.values import ClaimId, JobId, SiteName, UserName
from koala.core.scheduler import Scheduler
from koala.daemon.clients.admission import check as admit
from koala.daemon.storage.records import decode_event, encode_event
from koala.errors import KoalaError, SpecError
from koala.job_descriptions import canonical_json, evaluate, parse, read_job, unparse, write_job
from koala.job_descriptions.attributes import ATTRIBUTES
from koala.policies import chosen
from koala_agent.link import codec
from tests.fuzz.hostile_values import number, spoilt_bytes, spoilt_text, text
from tests.fuzz.target import Target, require_readable
from tests.harness.builders import a_site
from tests.job_descriptions.examples import TREES

Case: TypeAlias = tuple[str | bytes, dict[str, str]]

NAMES = [row.name for row in ATTRIBUTES]
PIECES = (
    *"+&|()=<>!\"'^#$*?~ \t\n\r\0;,", "(*", "*)", "$(", "<=", "!=", '""', "&(", ")(", "+(&(", "))",
    "(rsl_substitution=(A a))", "$(A)", "$(A b)", "(count=2)", "(label=x)",
    "(environment=(A b)(C d))", "(arguments=a \"b c\")", "(inputFile=(f 1K))", "(quorum=2)",
    "(inputs=g (h 2M))",
    "(deadline=+5)", "(subjobStartType=loose-barrier)", "(resourceManagerContact=delft)",
    "(maxWallTime=10)", "(outputFile=a/b)", "(retry=3)", "(stdout=o)", "(connect=(a b 1))",
)  # fmt: skip
SEEDS = [seed for seed, _ in TREES] + [
    "+(&(count=4)(executable=/bin/a)(label=left))(&(count=2)(executable=/bin/b)(label=right))",
    '&(executable=/bin/echo)(arguments="a b" $(X) c#d)(environment=(A 1)(B 2))(maxWallTime=5)',
    "&(rsl_substitution=(X /bin)(Y $(X)/sh))(executable=$(Y))(count=8)(jobType=mpi)(hostCount=2)",
]


def a_case(random: Random) -> Case:
    definitions = {}
    if random.randrange(4) == 0:
        definitions = {random.choice("AXY") or "A": text(random) for _ in range(2)}
    match random.randrange(10):
        case 0:
            return spoilt_bytes(random, random.choice(SEEDS).encode()), definitions
        case 1:
            return random.randbytes(random.randrange(60)), definitions
        case 2:
            return _nested(random), definitions
        case 3 | 4:
            return spoilt_text(random, random.choice(SEEDS), PIECES), definitions
        case 5:
            return "".join(random.choice(PIECES) for _ in range(random.randrange(30))), definitions
        case _:
            return _request(random), definitions


def _request(random: Random) -> str:
    """A request whose grammar is right, of attributes that may not be."""
    clauses = [
        "&(executable=/bin/true)" + "".join(_relation(random) for _ in range(random.randrange(5)))
        for _ in range(random.choice((1, 1, 2, 3, 9)))
    ]
    if len(clauses) == 1:
        return clauses[0]
    relations = "".join(_relation(random) for _ in range(random.randrange(2)))
    return "+" + "".join(f"({clause})" for clause in clauses) + relations


def _relation(random: Random) -> str:
    name = random.choice(NAMES)
    values = " ".join(_value(random) for _ in range(random.choice((1, 1, 1, 2, 3))))
    return f"({name}={values})"


def _value(random: Random, depth: int = 2) -> str:
    match random.randrange(9):
        case 0 | 1:
            return str(number(random))
        case 2:
            return f"+{number(random)}"
        case 3 | 4:
            quoted = text(random).replace('"', '""')
            return f'"{quoted}"'
        case 5:
            words = ("yes", "no", "high", "low", "mpi", "single", "whole", "chunk", "cpu", "io",
                     "a", "left", "strict-barrier", "no-barrier", "$(A)",
                     "2030-01-01T00:00Z")  # fmt: skip
            return random.choice(words)
        case 6:
            return "#".join(_value(random, 0) for _ in range(2))
        case _:
            if depth == 0:
                return "x"
            inner = " ".join(_value(random, depth - 1) for _ in range(random.randrange(1, 4)))
            return f"({inner})"


def _nested(random: Random) -> str:
    depth = random.choice((3, 30, 300))
    begin, middle, end = random.choice(
        (
            ("a=", "(", ")"),
            ("", "&(", ")"),
            ("a=", "$(X ", ")"),
            ("", "+(&(", "))"),
            ("a=b", "#c", ""),
        )
    )
    return begin + middle * depth + "b" + end * random.choice((0, depth - 1, depth, depth + 1))


def check(case: Case) -> None:
    """A tree or a refusal that says where; a job or a refusal; and what is taken, holds."""
    said, definitions = case
    try:
        tree = parse(said)
    except SpecError as error:
        require_readable(str(error))
        if error.position is None:
            raise AssertionError(f"a refusal without a place: {error}") from error
        return
    assert parse(unparse(tree)) == tree
    canonical_json(tree)
    try:
        evaluate(tree, definitions)
        reading = read_job(said, definitions, "ann")
    except SpecError as error:
        require_readable(str(error))
        return
    for warning in reading.warnings:
        require_readable(warning)
    try:
        written = write_job(reading.spec)
    except SpecError as error:  # what only the request's own words could say
        require_readable(str(error))
    else:
        assert read_job(written, owner="ann").spec == reading.spec
    _submit(JobSubmitted(job=JobId("j1"), spec=reading.spec))


def _submit(submitted: JobSubmitted) -> None:
    """The daemon's own checks, its journal, its core, and what it would tell an agent."""
    scheduler = Scheduler(Parameters(), chosen())
    scheduler.handle(DaemonStarted(epoch=1), 0.0)
    scheduler.handle(a_site("delft", 2**20), 0.0)
    try:
        admit(submitted.spec, scheduler, {})
    except KoalaError as error:
        require_readable(str(error))
        return
    assert decode_event("JobSubmitted", encode_event(submitted)) == submitted
    scheduler.handle(submitted, 1.0)
    check_state(scheduler, 1.0)
    for index, component in enumerate(submitted.spec.components):
        claim = ClaimProcessors(
            claim=ClaimId(f"j1/1/{index}/1"),
            site=SiteName("delft"),
            ask_number=1,
            is_granted=False,
            owner=UserName("ann"),
            processors=component.processors,
            port=20_000,
            hold_s=900.0,
            program=component.program(submitted.spec.label(index)),
        )
        assert codec.decode(TO_AGENT.encode(claim)) is not None
    msgspec.json.encode(submitted)


TARGETS = (Target(name="rsl", make=a_case, check=check),)
