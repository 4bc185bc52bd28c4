"""Job descriptions as YAML or JSON: the attributes of RSL under plain names.

    parse_document(text)    -> Tree     the tree that RSL text with the same attributes parses to
    write_document(tree)    -> str      the document of an evaluated tree
    dump_document(values)   -> str      the text of a document
    is_document(text)       -> bool     False: the text is to be read as RSL

A document is a mapping. `components` is the list of components, beside it stand the attributes of
the whole job; a document without `components` is a job of one component:

    version: 1
    priority: high
    components:
      - {label: left,  site: delft, executable: /bin/hostname, processors: 4}
      - {label: right, site: vu,    executable: /bin/hostname, processors: 4}

- Names are those of `attributes`, in any form that RSL knows (`wall_time`, `maxWallTime`).
- Scalars keep their text: `08` and `yes` are strings until the attribute's reader reads them.
- A list is a list of values, a mapping a list of pairs (`environment: {A: b}`); an item of a
  mapping without a value is its key alone. An empty list or mapping counts as absent; an attribute
  without a value is a mistake.
- Positions in later errors are those of the document.

Refused, so that no document is larger than it looks: anchors, aliases, tags, several documents,
nesting deeper than `DEPTH_MAX`, more than `NODES_MAX` nodes. Nothing recurses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml

from koala.errors import SpecError
from koala.job_descriptions.attribute_names import KNOWN, plain_name
from koala.job_descriptions.evaluation import canonical_name
from koala.job_descriptions.tree import (
    Compound,
    Connective,
    Literal,
    Operator,
    Relation,
    Sequence,
    Source,
    Specification,
    Tree,
    Value,
)

VERSION = "1"
DEPTH_MAX = 12
NODES_MAX = 200_000
WIDTH = 100  # columns of written YAML

_FIRST_LINE = re.compile(
    r"(?:[^\S\n]*(?:#(?!!)[^\n]*)?\n)*+"  # empty lines and comments
    r"[^\S\n]*(?:---|\{|[\"']?[A-Za-z_][\w-]*[\"']?[^\S\n]*:(?:\s|$))"
)
_SURROGATES = re.compile(
    r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
)
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def is_document(text: str) -> bool:
    """Return True if a text begins as a YAML or JSON mapping; no job in RSL does."""
    return _FIRST_LINE.match(text.removeprefix("\ufeff")) is not None


# --- reading ---


@dataclass(slots=True)
class _Scalar:
    text: str
    is_null: bool
    offset: int


@dataclass(slots=True)
class _List:
    offset: int
    items: list[_Node] = field(default_factory=list)


@dataclass(slots=True)
class _Mapping:
    offset: int
    items: list[tuple[_Scalar, _Node]] = field(default_factory=list)
    key: _Scalar | None = None  # whose value comes next
    seen: set[str] = field(default_factory=set)


Plain: TypeAlias = "str | int | list[Plain]"
_Node: TypeAlias = _Scalar | _List | _Mapping


def parse_document(text: str | bytes) -> Tree:
    """Parse a document to the tree of the job. Raises SpecError with line and column."""
    checked = Source.of(text)
    source = Source(text=_SURROGATES.sub(_joined, checked.text.removeprefix("\ufeff")))
    return Tree(root=_job(_compose(source), source), source=source)


def _joined(match: re.Match[str]) -> str:
    """Join the two escapes with which JSON writes a character beyond U+FFFF."""
    return match[1] + str(json.loads(f'"\\u{match[2]}\\u{match[3]}"'))


def _compose(source: Source) -> _Mapping:
    """Build the nodes of the one document in a text."""
    root: _Node | None = None
    stack: list[_List | _Mapping] = []
    nodes = 0
    for event in _events(source):
        offset = event.start_mark.index
        if isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            stack.pop()
        if (node := _node(event, offset, source)) is None:
            continue
        nodes += 1
        if nodes > NODES_MAX or len(stack) >= DEPTH_MAX:
            message = f"expected at most {NODES_MAX} values, nested at most {DEPTH_MAX} deep"
            raise source.error(f"the description is too large ({message})", offset)
        if stack:
            _add(stack[-1], node, source)
        elif root is not None:
            raise source.error("found a second document, expected one", offset)
        else:
            root = node
        if not isinstance(node, _Scalar):
            stack.append(node)
    if not isinstance(root, _Mapping):
        raise source.error("expected a mapping with `components`, or with `executable`", 0)
    return root


def _events(source: Source) -> Iterator[Any]:
    try:
        yield from yaml.parse(source.text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        what = ", ".join(part for part in (error.context, error.problem) if part)
        marks = [m.index for m in (error.problem_mark, error.context_mark) if m is not None]
        raise source.error(f"invalid YAML or JSON: {what}", [*marks, 0][0]) from None
    except yaml.YAMLError as error:
        raise source.error(f"invalid YAML or JSON: {error}", 0) from None


def _node(event: yaml.Event, offset: int, source: Source) -> _Node | None:
    """Return the node that an event begins, if any."""
    if getattr(event, "anchor", None) or getattr(event, "tag", None):
        raise source.error("anchors, aliases and tags (& * !) are not allowed here", offset)
    match event:
        case yaml.ScalarEvent():
            is_null = event.implicit[0] and event.value.lower() in ("", "~", "null")
            return _Scalar(event.value, is_null, offset)
        case yaml.SequenceStartEvent():
            return _List(offset)
        case yaml.MappingStartEvent():
            return _Mapping(offset)
        case _:
            return None


def _add(parent: _List | _Mapping, node: _Node, source: Source) -> None:
    """Add a node to its parent; in a mapping names and values alternate."""
    if isinstance(parent, _List):
        parent.items.append(node)
    elif parent.key is not None:
        parent.items.append((parent.key, node))
        parent.key = None
    elif not isinstance(node, _Scalar):
        raise source.error("found a list or mapping as a name, expected a string", node.offset)
    elif node.text in parent.seen:
        raise source.error(f"{node.text!r} is given twice", node.offset)
    else:
        parent.seen.add(node.text)
        parent.key = node


def _job(root: _Mapping, source: Source) -> Compound:
    components: _Node | None = None
    attributes: list[tuple[_Scalar, _Node]] = []
    for key, node in root.items:
        if key.text == "version":
            if not isinstance(node, _Scalar) or node.text != VERSION:
                raise source.error(f"version: expected {VERSION}", node.offset)
        elif key.text == "components":
            components = node
        else:
            attributes.append((key, node))
    relations = _relations(attributes, source)
    if components is None:
        return Compound(connective=Connective.AND, operands=relations, offset=root.offset)
    if not isinstance(components, _List) or not components.items:
        raise source.error("components: expected a list of at least one", components.offset)
    clauses = []
    for item in components.items:
        if not isinstance(item, _Mapping):
            raise source.error("components: expected a mapping with `executable`", item.offset)
        clauses.append(
            Compound(
                connective=Connective.AND,
                operands=_relations(item.items, source),
                offset=item.offset,
            )
        )
    return Compound(
        connective=Connective.MULTI, operands=(*relations, *clauses), offset=root.offset
    )


def _relations(items: list[tuple[_Scalar, _Node]], source: Source) -> tuple[Relation, ...]:
    relations = []
    for key, node in items:
        if not key.text.strip():
            raise source.error("found an empty name, expected that of an attribute", key.offset)
        if isinstance(node, _Scalar) and node.is_null:
            message = f"{key.text}: found nothing, expected a value (or no such line)"
            raise source.error(message, key.offset)
        if values := _values(node, source):
            relations.append(
                Relation(attribute=key.text, operator=Operator.EQ, values=values, offset=key.offset)
            )
    return tuple(relations)


def _values(node: _Node, source: Source) -> tuple[Value, ...]:
    """Convert a node to the values of a relation; `DEPTH_MAX` bounds the recursion."""
    match node:
        case _Scalar(is_null=True):
            return ()
        case _Scalar():
            return (Literal(text=node.text, offset=node.offset),)
        case _List():
            return tuple(_value(item, source) for item in node.items)
        case _Mapping():
            return tuple(_pair(key, item, source) for key, item in node.items)


def _value(node: _Node, source: Source) -> Value:
    if isinstance(node, _Scalar):
        return Literal(text=node.text, offset=node.offset)
    if not (values := _values(node, source)):
        raise source.error("found an empty list or mapping inside a value", node.offset)
    return Sequence(values=values, offset=node.offset)


def _pair(key: _Scalar, node: _Node, source: Source) -> Value:
    name = Literal(text=key.text, offset=key.offset)
    values = _values(node, source)
    return Sequence(values=(name, *values), offset=key.offset) if values else name


# --- writing ---


def write_document(tree: Tree, *, as_json: bool = False) -> str:
    """Write the document of an evaluated tree. Raises SpecError for what is no job."""
    root = tree.root
    if isinstance(root, Relation) or root.connective is Connective.OR:
        raise tree.source.error("a job begins with & or +", root.offset)
    document: dict[str, Any] = {"version": int(VERSION)}
    if root.connective is Connective.AND:
        document |= _attributes(root.operands, tree.source)
    else:
        job = [operand for operand in root.operands if isinstance(operand, Relation)]
        clauses = [operand for operand in root.operands if isinstance(operand, Compound)]
        document |= _attributes(job, tree.source)
        document["components"] = [_attributes(clause.operands, tree.source) for clause in clauses]
    return dump_document(document, as_json=as_json)


def dump_document(document: Mapping[str, object], *, as_json: bool = False) -> str:
    """Write a document of plain values as text."""
    if as_json:
        text = json.dumps(document, indent=2, ensure_ascii=False)
        if not text.replace("\n", "").isprintable():  # YAML, as which it is read, knows no raw ones
            text = json.dumps(document, indent=2)
        return text + "\n"
    text = yaml.dump(
        document,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=WIDTH,
    )
    return str(text)


class _Dumper(yaml.SafeDumper):
    """Dumper that never writes aliases, which readers refuse."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """Escape what is not printable; plain YAML folds some line breaks into blanks."""
        if data.isprintable():
            return super().represent_str(data)
        return self.represent_scalar("tag:yaml.org,2002:str", data, style='"')


_Dumper.add_representer(str, _Dumper.represent_str)


def _attributes(operands: Iterable[Specification], source: Source) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for operand in operands:
        if isinstance(operand, Compound) or operand.operator is not Operator.EQ:
            raise source.error("expected relations with = inside a component", operand.offset)
        known = KNOWN.get(canonical_name(operand.attribute))
        name = operand.attribute if known is None else plain_name(known)
        if name in attributes:
            raise source.error(f"{operand.attribute} is given twice", operand.offset)
        pairs = dict(pair for value in operand.values if (pair := _pair_of(value)))
        if name == "environment" and len(pairs) == len(operand.values):
            attributes[name] = pairs
        elif len(operand.values) == 1 and isinstance(operand.values[0], Literal):
            attributes[name] = _plain(operand.values[0])
        else:
            attributes[name] = [_plain(value) for value in operand.values]
    return attributes


def _pair_of(value: Value) -> tuple[str, Plain] | None:
    match value:
        case Sequence(values=(Literal(text=name), Literal() as text)):
            return name, _plain(text)
        case _:
            return None


def _plain(value: Value) -> Plain:
    match value:
        case Literal(text=text):
            return int(text) if _NUMBER.fullmatch(text) else text
        case Sequence(values=values):
            return [_plain(inner) for inner in values]
        case _:
            raise SpecError("variables must be evaluated before a document is written")
