"""Reader of jobs from text: in RSL `&` is a job of one component, `+` of `&` one of several.

YAML and JSON documents are read as the same tree (`document`).

Only `=` relates here; `|`, nested `+` and the other operators are RSL, but no job. Attributes of
the whole job (priority, deadline, ...) may stand in any one component or directly in the `+`. The
table in `attributes` defines the treatment of every attribute. Limits: `JOB_CHARACTERS_MAX` and
`JOB_TOKENS_MAX` here, and those of `readers` and `fields`. All mistakes of a description are
gathered, up to `ERRORS_MAX`, and raised as one SpecError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from koala.core.model.job_spec import ComponentSpec, InputMode, JobSpec, StartType
from koala.core.model.tcp_paths import connection_count, names_of
from koala.core.model.values import ALL, SiteName, UserName
from koala.errors import SpecError
from koala.job_descriptions import fields
from koala.job_descriptions.attribute_names import (
    DEFINITION,
    KEYS,
    KNOWN,
    find_attribute,
    known_names_near,
)
from koala.job_descriptions.attributes import PROCESSORS_MAX, Attribute, Scope, Treatment
from koala.job_descriptions.document import is_document, parse_document
from koala.job_descriptions.evaluation import canonical_name, evaluate, is_definition
from koala.job_descriptions.fields import AttributeText, shown
from koala.job_descriptions.flexible import COMPONENTS_MAX, SplitError, flexible
from koala.job_descriptions.parser import parse
from koala.job_descriptions.readers import JOB_READERS
from koala.job_descriptions.tree import (
    Compound,
    Connective,
    Literal,
    Operator,
    Relation,
    Sequence,
    Tree,
)

JOB_CHARACTERS_MAX = 1_000_000
JOB_TOKENS_MAX = 200_000
"""Limit on tokens (names, values, operators, parentheses): each costs about five microseconds and
200 bytes."""
PATHS_MAX = 20_000
ERRORS_MAX = 10

FORM_BYTES = 4096
"""Bytes of a text that tell its form."""

_CONTACT = re.compile(r"(?:https?://)?(?P<host>[A-Za-z0-9_][A-Za-z0-9._\-]*)(?P<rest>[:/].*)?")


MEMORY_MB_DOUBTED = 64
"""Memory of a process without a unit below which gigabytes may have been meant."""


@dataclass(frozen=True, kw_only=True)
class JobReading:
    """Reading of a text: the job, warnings for the user, and the dry-run flag."""

    spec: JobSpec
    warnings: tuple[str, ...] = ()
    is_dry_run: bool = False

    @cached_property
    def size_bytes(self) -> int:
        """Estimated size of the description."""
        return description_bytes(self.spec)


def description_bytes(spec: JobSpec) -> int:
    """Estimate the size of a description: the length of its JSON."""
    return len(msgspec.json.encode(spec))


def read_job(
    text: str | bytes, definitions: Mapping[str, str] | None = None, owner: str = ""
) -> JobReading:
    """Read the job that a text in RSL, YAML or JSON describes. `definitions` are variables of RSL
    from outside (-D NAME=VALUE)."""
    if len(text) > JOB_CHARACTERS_MAX:
        message = f"the job description has {len(text)} characters"
        raise SpecError(f"{message} (expected at most {JOB_CHARACTERS_MAX})")
    return read_tree(evaluated_tree(text, definitions), owner)


def _is_document(text: str | bytes) -> bool:
    return is_document(
        text if isinstance(text, str) else text[:FORM_BYTES].decode(errors="replace")
    )


def evaluated_tree(text: str | bytes, definitions: Mapping[str, str] | None = None) -> Tree:
    """Parse a description in RSL, YAML or JSON to its evaluated tree. Raises SpecError."""
    if _is_document(text):
        if definitions:
            message = "variables (-D) are part of RSL: a YAML or JSON description has none"
            raise SpecError(message)
        return parse_document(text)
    return evaluate(parse(text, tokens_max=JOB_TOKENS_MAX), definitions)


def read_tree(tree: Tree, owner: str = "") -> JobReading:
    """Read the job that an evaluated tree describes."""
    return _JobReader(tree, owner).read()


def divided_problem(spec: JobSpec) -> str:
    """Return what prevents dividing the input file of a job among its components; empty if
    nothing does."""
    if len(spec.input_files) > 1:
        return f"divides one input file, found {len(spec.input_files)} in inputFile"
    if len(spec.all_inputs) > len(spec.input_files):
        return "divides the file of inputFile, found inputs of a component"
    return ""


_BLANK_JOB = JobSpec(components=())
_BLANK_VALUES: dict[str, Any] = {"executable": ""}
_BLANK_COMPONENT = ComponentSpec(**_BLANK_VALUES)


class _JobReader:
    """Reader of one job; gathers warnings and the job-wide attributes of all components."""

    def __init__(self, tree: Tree, owner: str) -> None:
        self._tree = tree
        self._owner = UserName(owner)
        self._warnings: dict[str, str] = {}  # one for each attribute and kind
        self._job_relations: dict[str, Relation] = {}
        self._relations: dict[str, Relation] = {}  # of the last component
        self._labels: set[str] = set()
        self._processors = 0
        self._is_dry_run = False
        self._last_values = _BLANK_VALUES
        self._last_component = _BLANK_COMPONENT
        self._errors: list[SpecError] = []

    def read(self) -> JobReading:
        components = [self._component(clause) for clause in self._clauses()]
        self._raise_gathered()
        spec = JobSpec(components=tuple(components), owner=self._owner)
        for name, relation in self._job_relations.items():
            spec = JOB_READERS[name](spec, self._text_of(relation))
        if spec.split is not None:
            spec = self._flexible(spec)
        elif spec.quorum is not None and spec.quorum > len(components):
            message = f"quorum is {spec.quorum}, expected at most the number of components"
            raise self._error(f"{message}, {len(components)}", self._job_relations["quorum"])
        self._check_paths(spec)
        self._check_inputs(spec)
        if spec.retries and not spec.rerun:
            message = "retry means nothing with rerun=no: a program that failed has started"
            self._warn("retry", message, self._job_relations["retry"])
        unused = None if spec.is_malleable else self._relations.get("resizesignal")
        if unused is not None:
            message = "resizeSignal means nothing without malleable=yes"
            self._warn("resizeSignal", message, unused)
        warnings = tuple(self._warnings.values())
        return JobReading(spec=spec, warnings=warnings, is_dry_run=self._is_dry_run)

    def _flexible(self, spec: JobSpec) -> JobSpec:
        relations = {**self._relations, **self._job_relations}
        try:
            return flexible(spec, {name: at.attribute for name, at in relations.items()})
        except SplitError as error:
            raise self._error(error.message, relations[error.at]) from error

    def _check_inputs(self, spec: JobSpec) -> None:
        """Check the files of the job together with those of each component."""
        if spec.input_mode is InputMode.CHUNK and (problem := divided_problem(spec)):
            raise self._error(f"inputMode=chunk {problem}", self._job_relations["inputmode"])
        for index in range(len(spec.components)) if spec.input_files else ():
            if problem := fields.inputs_problem(spec.inputs_of(index)):
                message = f"inputFile, and inputs of component {spec.label(index)}: {problem}"
                raise self._error(message, self._job_relations["inputfile"])

    def _check_paths(self, spec: JobSpec) -> None:
        """Check that declared TCP paths lead from one component that starts at the barrier to
        another."""
        if not spec.connect:
            return
        names = names_of(spec)
        for path in spec.connect:
            at = self._job_relations["connect"]
            ends = [path.source, path.target]
            for word in ends:
                if word != ALL and word not in names:
                    known = ", ".join(spec.label(index) for index in range(len(spec.components)))
                    message = f"connect: found {shown(word)}, expected all or a component"
                    raise self._error(f"{message}: {known}", at)
                if word != ALL and spec.components[names[word]].start_type is StartType.NONE:
                    message = f"connect: component {shown(word)} has no barrier to wait at"
                    raise self._error(f"{message}, so its paths cannot be tried before", at)
            if ALL not in ends and names[path.source] == names[path.target]:
                message = f"connect: found a path from {shown(path.source)} to itself"
                raise self._error(f"{message}, expected two components", at)
        if connection_count(spec) > PATHS_MAX:
            message = f"connect: found {connection_count(spec)} paths, expected at most {PATHS_MAX}"
            raise self._error(message, self._job_relations["connect"])

    # The shape of a job

    def _clauses(self) -> list[Compound]:
        """Return the components; job-wide relations directly in the `+` are read here."""
        root = self._tree.root
        if isinstance(root, Relation):
            raise self._error("a job begins with & or +, found a relation alone", root)
        if root.connective is Connective.AND:
            return [root]
        if root.connective is Connective.OR:
            raise self._error("a job has no alternatives: | is RSL, but not a job", root)
        clauses = []
        for operand in root.operands:
            if isinstance(operand, Relation):
                with self._gathered():
                    self._read_job_relation(operand)
            elif operand.connective is Connective.AND:
                clauses.append(operand)
            else:
                message = f"found {operand.connective} inside +, expected & or a relation"
                raise self._error(f"{message}: a job is + of &", operand)
        if not 1 <= len(clauses) <= COMPONENTS_MAX:
            message = f"found {len(clauses)} components, expected 1 to {COMPONENTS_MAX}"
            raise self._error(message, root)
        return clauses

    def _read_job_relation(self, relation: Relation) -> None:
        attribute = self._attribute(relation)
        if attribute is None or attribute.name == DEFINITION:
            return
        if attribute.scope is Scope.COMPONENT:
            message = (
                f"{attribute.name} belongs to a component: write it inside one (in RSL, "
                "inside an &), not beside the attributes of the whole job"
            )
            raise self._error(message, relation)
        self._keep_for_job(KEYS[attribute.name], relation)

    def _component(self, clause: Compound) -> ComponentSpec:
        """Read a component; gathers its mistakes."""
        relations: dict[str, Relation] = {}
        before = len(self._errors)
        for operand in clause.operands:
            if isinstance(operand, Compound):
                message = f"found {operand.connective} inside &, expected relations"
                raise self._error(f"{message}: a job is & or + of &", operand)
            try:
                self._sort(operand, relations)
            except SpecError as error:
                self._gather(error)
        self._relations = relations
        if "executable" not in relations:
            message = "this component has no executable, which each needs"
            self._gather(self._error(message, clause))
        values: dict[str, Any] = {"executable": ""}
        for name, relation in relations.items():
            try:
                self._read_attribute(values, name, relation, relations)
            except SpecError as error:
                self._gather(error)
        spec = self._component_of(values)
        if len(self._errors) == before:
            try:
                self._check(spec, clause, relations)
            except SpecError as error:
                self._gather(error)
        return spec

    def _component_of(self, values: dict[str, Any]) -> ComponentSpec:
        """Make the component of these fields; one that equals the last is the same object, since
        the components of many jobs are alike."""
        if values != self._last_values:
            self._last_values, self._last_component = values, ComponentSpec(**values)
        return self._last_component

    def _sort(self, relation: Relation, relations: dict[str, Relation]) -> None:
        """Add a relation of a component to `relations`, or to those of the job."""
        attribute = self._attribute(relation)
        if attribute is None or attribute.name == DEFINITION:
            return
        name = KEYS[attribute.name]
        if attribute.scope is Scope.JOB:
            self._keep_for_job(name, relation)
        elif name in relations:
            raise self._error(f"{attribute.name} is given twice in this component", relation)
        else:
            relations[name] = relation

    def _read_attribute(
        self, values: dict[str, Any], name: str, relation: Relation, relations: dict[str, Relation]
    ) -> None:
        """Set the field of the component that an attribute describes."""
        text = self._text_of(relation)
        attribute = KNOWN[name]
        if attribute.read is not None:
            values[attribute.field] = attribute.read(text)
        elif name == "dryrun":
            self._is_dry_run |= fields.is_yes(text)
        elif name == "resourcemanagercontact":
            values["site"] = self._site(text)
        else:
            assert name == "maxtime"
            wall_time_s = fields.time_limit_s(text)
            if "maxwalltime" not in relations:
                values["wall_time_s"] = wall_time_s
            else:
                self._warn("maxtime", "maxTime is ignored: maxWallTime is given", relation)

    def _check_needs(self, spec: ComponentSpec, relations: dict[str, Relation]) -> None:
        """Check attributes that need another one."""
        if spec.gpu_type is not None and spec.gpus is None:
            raise self._error("gpuType needs gpus, their number", relations["gputype"])
        if spec.ports and spec.start_type is StartType.NONE:
            message = "ports of a component without a barrier: the others are told of them there"
            raise self._error(f"{message} (expected another startType)", relations["ports"])

    def _check(self, spec: ComponentSpec, clause: Compound, relations: dict[str, Relation]) -> None:
        """Check constraints between several attributes, or several components."""
        has_count = "totalcount" not in self._job_relations
        if has_count and spec.hosts is not None and spec.hosts > spec.processors:
            message = f"hostCount is {spec.hosts}, expected at most count, {spec.processors}"
            raise self._error(message, relations["hostcount"])
        each = spec.cpus_per_task
        if has_count and each is not None and spec.processors % each:
            message = f"cpusPerTask is {each}, expected a divisor of count, {spec.processors}"
            raise self._error(message, relations["cpuspertask"])
        self._check_needs(spec, relations)
        low, high = spec.memory_min_mb, spec.memory_max_mb
        if low is not None and high is not None and low > high:
            message = f"minMemory is {low}, expected at most maxMemory, {high}"
            raise self._error(message, relations["minmemory"])
        for name, size_mb in (("minmemory", low), ("maxmemory", high)):
            if size_mb is not None and size_mb < MEMORY_MB_DOUBTED:
                text = getattr(relations[name].values[0], "text", "")
                if text.isdecimal():
                    message = f"{relations[name].attribute} {text} is {text} MB; GB are {text}G"
                    self._warn(name, message, relations[name])
        if spec.label is not None:
            if spec.label in self._labels:
                message = f"label: found {shown(spec.label)}, expected each label once"
                raise self._error(message, relations["label"])
            self._labels.add(spec.label)
        self._count(spec, clause)

    def _count(self, spec: ComponentSpec, clause: Compound) -> None:
        """Count the processors of a component. Raises SpecError if they are too many."""
        self._processors += spec.processors
        if self._processors > PROCESSORS_MAX:
            message = f"the components up to this one have {self._processors} processors together"
            raise self._error(f"{message}, expected at most {PROCESSORS_MAX}", clause)

    # Attributes

    def _attribute(self, relation: Relation) -> Attribute | None:
        """Return the row of a relation's attribute; None when it is to be skipped."""
        if relation.operator is not Operator.EQ:
            message = f"a job relates only with =, found {relation.operator}"
            raise self._error(message, relation)
        for value in relation.values:  # most are plain and have none
            if not isinstance(value, Literal) or "\r" in value.text:
                self._warn_of_carriage_returns(relation)
                break
        attribute = find_attribute(relation.attribute)
        if attribute is None:
            if relation.attribute.lower().startswith("x-"):
                return None
            near = known_names_near(relation.attribute)
            question = f"; did you mean {near[0]}?" if near else ""
            message = f"unknown attribute {shown(relation.attribute)}{question}"
            raise self._error(message, relation)
        if attribute.name == DEFINITION and not is_definition(relation.attribute):
            raise self._error("definitions are written rsl_substitution", relation)
        match attribute.treatment:
            case Treatment.HONOURED | Treatment.HANDED:
                return attribute
            case Treatment.REFUSED:
                raise self._error(f"{attribute.name} is refused: {attribute.note}", relation)
            case Treatment.IGNORED:
                message = f"{attribute.name} is ignored: {attribute.note}"
                self._warn(attribute.name, message, relation)
                return None

    def _keep_for_job(self, name: str, relation: Relation) -> None:
        """Store a job-wide attribute: given once, or several times with the same value."""
        first = self._job_relations.setdefault(name, relation)
        read = JOB_READERS[name]
        value = read(_BLANK_JOB, self._text_of(relation))
        if first is not relation and read(_BLANK_JOB, self._text_of(first)) != value:
            message = f"{KNOWN[name].name} is of the whole job and has another value at"
            own = "; inputs are files of one component" if name == "inputfile" else ""
            raise self._error(f"{message} {self._line(first.offset)}{own}", relation)

    def _site(self, attribute: AttributeText) -> SiteName:
        literal = fields.string(attribute)
        match = _CONTACT.fullmatch(literal.text)
        if match is None or len(match["host"]) > fields.WORD_CHARACTERS_MAX:
            raise attribute.wrong(literal, "the name of a site")
        host = match["host"]
        if host != literal.text:
            message = (
                f"of resourceManagerContact only the host part, {host!r}, counts: it is the site"
            )
            self._warn("resourcemanagercontact", message, attribute.relation)
        return SiteName(host)

    # Errors and warnings

    @contextmanager
    def _gathered(self) -> Iterator[None]:
        """Gather the mistake that the body finds; raise them all when there are many."""
        try:
            yield
        except SpecError as error:
            self._gather(error)

    def _gather(self, error: SpecError) -> None:
        self._errors.append(error)
        if len(self._errors) == ERRORS_MAX:
            self._raise_gathered()

    def _raise_gathered(self) -> None:
        if self._errors:
            first, *others = self._errors
            raise SpecError(first.message, first.position, tuple(others))

    def _text_of(self, relation: Relation) -> AttributeText:
        return AttributeText(relation=relation, source=self._tree.source)

    def _line(self, offset: int) -> str:
        position = self._tree.source.position(offset)
        return f"line {position.line}, column {position.column}" if position else "another place"

    def _error(self, message: str, node: Relation | Compound) -> SpecError:
        return self._tree.source.error(message, node.offset)

    def _warn(self, kind: str, message: str, relation: Relation) -> None:
        if kind not in self._warnings:
            self._warnings[kind] = f"{self._line(relation.offset)}: {message}"

    def _warn_of_carriage_returns(self, relation: Relation) -> None:
        """Warn of carriage returns: quotes keep their content, but a CR of a DOS text file must not
        stay unseen."""
        stack = list(relation.values)
        while stack:
            value = stack.pop()
            if isinstance(value, Sequence):
                stack.extend(value.values)
            elif isinstance(value, Literal) and "\r" in value.text:
                message = f"a value of {relation.attribute} holds a carriage return (CR)"
                self._warn(f"CR in {canonical_name(relation.attribute)}", message, relation)
