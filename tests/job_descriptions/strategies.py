"""Random trees, texts near RSL, and jobs."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from koala.common.protocol.names import visible_name
from koala.core.model.job_spec import (
    ComponentSpec,
    Deadline,
    Hint,
    InputFile,
    InputMode,
    JobSpec,
    JobType,
    Notify,
    StartType,
)
from koala.core.model.predecessors import Ended, Predecessor
from koala.core.model.values import FileName, JobId, Priority, SiteName, TcpPath
from koala.job_descriptions.tree import (
    Compound,
    Concatenation,
    Connective,
    Literal,
    Operator,
    Relation,
    Sequence,
    Tree,
    Variable,
)

# Trees

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
"""What a literal may hold: anything but NUL and lone surrogates."""
names = st.sampled_from(
    ["A", "B", "count", "a b", "", "*", "+x", "'", '"', "(*", "é", "\r", "$(X)"]
)
literals = st.builds(Literal, text=texts | names)
variables = st.recursive(
    st.builds(Variable, name=texts | names),
    lambda inner: st.builds(
        Variable,
        name=names,
        default=literals | inner | st.builds(Concatenation, parts=st.tuples(literals, inner)),
    ),
    max_leaves=3,
)
items = literals | variables
concatenations = st.builds(Concatenation, parts=st.lists(items, min_size=2, max_size=4).map(tuple))
values = st.recursive(
    items | concatenations,
    lambda inner: st.builds(Sequence, values=st.lists(inner, min_size=1, max_size=3).map(tuple)),
    max_leaves=6,
)
relations = st.builds(
    Relation,
    attribute=texts | names,
    operator=st.sampled_from(Operator),
    values=st.lists(values, min_size=1, max_size=3).map(tuple),
)
specifications = st.recursive(
    relations,
    lambda inner: st.builds(
        Compound,
        connective=st.sampled_from(Connective),
        operands=st.lists(inner, min_size=1, max_size=3).map(tuple),
    ),
    max_leaves=5,
)
trees = st.builds(Tree, root=specifications)

# Texts

_PIECES = (
    *"+&|()=<>!\"'^#$*?~ \t\n\r\0\x0bab1é",
    "(*", "*)", "$(", "<=", "!=", '""', "&(", ")(", "rsl_substitution=", "(A a)", "$(A)", "count=",
    "executable=", "+(&(", "))", "environment=(", "deadline=", "inputFile=(f 1K)", "label=x",
)  # fmt: skip
near_texts = st.lists(st.sampled_from(_PIECES), max_size=30).map("".join)
"""Texts that are nearly RSL, and sometimes are."""

# Jobs

_clean = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=10)
_paths = _clean.filter(lambda text: "://" not in text)
_words = st.from_regex(r"[A-Za-z0-9_.*?()][A-Za-z0-9_.@:+\-\"']{0,9}", fullmatch=True)
_labels = st.text("abc é'\"()+*", min_size=1, max_size=6).filter(str.strip)
_variable_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True).filter(
    lambda name: not name.startswith("KOALA_")
)
_environments = st.dictionaries(_variable_names, texts, max_size=3).map(
    lambda pairs: tuple(pairs.items())
)
_output_files = st.lists(
    st.from_regex(r"[a-z][a-z ]{0,3}(/[a-z.é]{1,4}x){0,2}", fullmatch=True), max_size=3, unique=True
).map(tuple)
_minutes = st.none() | st.integers(1, 5_256_000).map(lambda minutes: minutes * 60.0)


_amounts = st.floats(1e-6, 1e15)


_licenses = st.dictionaries(
    st.sampled_from(["matlab", "a.b@c", "x/y-z"]), st.integers(1, 1_000_000), max_size=3
).map(lambda counts: tuple(counts.items()))


_ports = st.lists(
    st.tuples(st.sampled_from(["DB", "A_1"]), st.integers(1, 65_535)),
    max_size=2,
    unique_by=(lambda port: port[0], lambda port: port[1]),
).map(tuple)


_input_files = st.builds(
    InputFile,
    name=st.text("abc/é ", min_size=1, max_size=8).filter(str.strip).map(FileName),
    size_bytes=st.none() | st.integers(0, 2**63 - 1),
)
_inputs = st.lists(_input_files, max_size=2, unique_by=lambda file: visible_name(file.name)).map(
    tuple
)


@st.composite
def components(draw: st.DrawFn) -> ComponentSpec:
    """A component that can be written."""
    processors = draw(st.integers(1, 1000))
    start_type = draw(st.sampled_from(StartType))
    gpus = draw(st.none() | st.integers(1, 1000))
    low, high = sorted(draw(st.tuples(st.integers(1, 10**9), st.integers(1, 10**9))))
    return ComponentSpec(
        executable=draw(_paths),
        arguments=draw(st.lists(texts, max_size=3).map(tuple)),
        directory=draw(st.none() | _paths),
        environment=draw(_environments),
        stdin=draw(st.none() | _paths),
        stdout=draw(st.none() | _paths),
        stderr=draw(st.none() | _paths),
        processors=processors,
        hosts=draw(st.none() | st.integers(1, processors)),
        job_type=draw(st.sampled_from(JobType)),
        site=draw(st.none() | st.sampled_from(["delft", "fs0.das2.org", "a_b-c"]).map(SiteName)),
        sites=draw(st.sampled_from([(), ("delft",), ("delft", "vu")])),
        start_type=start_type,
        ports=() if start_type is StartType.NONE else draw(_ports),
        wall_time_s=draw(_minutes),
        cpu_time_s=draw(_minutes),
        memory_min_mb=draw(st.sampled_from([None, low])),
        memory_max_mb=draw(st.sampled_from([None, high])),
        queue=draw(st.none() | _words),
        project=draw(st.none() | _words),
        qos=draw(st.none() | _words),
        reservation=draw(st.none() | _words),
        tasks_per_host=draw(st.none() | st.integers(1, 1000)),
        cpus_per_task=draw(
            st.none() | st.sampled_from([n for n in (1, 2, 7) if processors % n == 0])
        ),
        gpus=gpus,
        gpu_type=None if gpus is None else draw(st.none() | _words),
        constraint=draw(st.none() | st.sampled_from(["ib", "ib&haswell", "[a|b]*2"])),
        licenses=draw(_licenses),
        is_exclusive=draw(st.booleans()),
        native=draw(st.none() | st.sampled_from(["--reservation=course", "-l 'a b=1'", "-p -10"])),
        output_files=draw(_output_files),
        stage=draw(st.just(()) | st.just(("yes",)) | _output_files),
        outputs=draw(_output_files.map(lambda names: tuple(f"{name}/*.[c]" for name in names))),
        rate=draw(st.none() | _amounts),
        inputs=draw(_inputs),
    )


_seconds = st.floats(0, 300_000_000, allow_nan=False, allow_subnormal=False).filter(
    lambda seconds: seconds == 0 or seconds > 1e-6
)
_deadlines = st.one_of(
    st.integers(0, 4_000_000_000_000_000).map(lambda micro: Deadline(at=micro / 10**6)),
    _seconds.map(lambda seconds: Deadline(after_s=seconds)),
)
_amounts = st.floats(min_value=1e-6, max_value=1e15)
_hints = st.builds(
    Hint, kind=st.sampled_from(["cpu", "io"]), deviation=st.none() | st.floats(0.0, 1.0)
)


_notices = st.none() | st.builds(
    Notify,
    topic=st.just("") | st.from_regex(r"[a-z][a-z0-9.:]{0,5}", fullmatch=True),
    command=st.just(()) | st.lists(_clean, max_size=3).map(lambda words: ("/bin/told", *words)),
).filter(lambda one: one != Notify())
_predecessors = st.lists(
    st.builds(
        Predecessor,
        job=st.integers(1, 10**18 - 1).map(lambda number: JobId(f"j{number}")),
        ended=st.sampled_from(Ended),
    ),
    max_size=3,
    unique_by=lambda one: one.job,
).map(tuple)


def _tcp_paths(labels: list[str] | list[None]) -> st.SearchStrategy[tuple[TcpPath, ...]]:
    """TCP paths between components, by label or index, or all."""
    first, last = labels[0] or "0", labels[-1] or str(len(labels) - 1)
    ends = st.sampled_from([("all", "all"), (first, last), (last, "all"), ("all", first)])
    path = st.builds(
        lambda pair, port: TcpPath(source=pair[0], target=pair[1], port=port),
        ends,
        st.integers(1, 65535),
    )
    return st.lists(path, max_size=3, unique=True).map(tuple)


@st.composite
def jobs(draw: st.DrawFn) -> JobSpec:
    """A job that can be written."""
    parts = draw(st.lists(components(), min_size=1, max_size=3))
    labels = draw(
        st.lists(_labels, min_size=len(parts), max_size=len(parts), unique=True)
        | st.just([None] * len(parts))
    )
    labelled = [replace(part, label=label) for part, label in zip(parts, labels, strict=True)]
    files = draw(st.lists(_input_files, max_size=3, unique_by=lambda file: visible_name(file.name)))
    seen = {visible_name(file.name) for file in files}
    labelled = [
        replace(part, inputs=tuple([f for f in part.inputs if visible_name(f.name) not in seen]))
        for part in labelled
    ]
    is_divisible = len(files) < 2 and not any(part.inputs for part in labelled)
    modes = InputMode if is_divisible else [InputMode.WHOLE]
    has_barrier = all(part.start_type is not StartType.NONE for part in parts)
    return JobSpec(
        components=tuple(labelled),
        name=draw(st.just("") | _labels),
        distinct=draw(st.booleans()),
        priority=draw(st.sampled_from(Priority)),
        input_file=files[0] if files else None,
        more_files=tuple(files[1:]),
        input_mode=draw(st.sampled_from(modes)),
        deadline=draw(st.none() | _deadlines),
        hint=draw(st.none() | _hints),
        length_mi=draw(st.none() | _amounts),
        preferred_mips=draw(st.none() | _amounts),
        max_hold_s=draw(st.none() | _seconds),
        quorum=draw(st.none() | st.integers(1, len(parts))),
        redundancy=draw(st.integers(1, 8)),
        retries=draw(st.integers(0, 1000)),
        rerun=draw(st.booleans()),
        progress=draw(st.sampled_from([None, "free", "sq"])),
        asynchrony_s=draw(st.none() | _amounts),
        deviation_s=draw(st.none() | _amounts),
        after=draw(_predecessors),
        notify=draw(_notices),
        connect=draw(_tcp_paths(labels)) if has_barrier and len(parts) > 1 else (),
    )
