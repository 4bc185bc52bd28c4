"""From tokens to a tree: an automaton whose state is a method and whose stack is a list.

    specification ::= relation | ('&' | '|' | '+') '(' specification ')' { '(' specification ')' }
    relation      ::= literal operator value { value }
    value         ::= '(' value { value } ')' | simple
    simple        ::= item { '#' item }        (side by side without `#`: see _OpenList.add)
    item          ::= literal | '$' '(' literal [ simple ] ')'

No recursion: the depth of a text is limited by memory alone. Every error is a SpecError that says
what was found and what was expected.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TypeAlias

from koala.errors import SpecError
from koala.job_descriptions.lexer import Kind, Lexer, Token
from koala.job_descriptions.tree import (
    Compound,
    Concatenation,
    Connective,
    Literal,
    Operator,
    Relation,
    Sequence,
    Simple,
    Source,
    Specification,
    Tree,
    Value,
    Variable,
)

_OPERATORS = {operator.value: operator for operator in Operator}
_CONNECTIVES = {connective.value: connective for connective in Connective}


def parse(text: str | bytes, *, tokens_max: int | None = None) -> Tree:
    """Parse a whole text; bytes must be UTF-8. Raises SpecError with the position. For a text of
    more tokens than allowed the error has no position, and the rest is not read.
    """
    source = Source.of(text)
    lexer, parser = Lexer(source), _Parser(source)
    state: _State = parser.specification
    while parser.root is None:  # END is the last token, and finishes the root
        if state == parser.clauses and (plain := lexer.relation()) is not None:
            parser.add(*plain)
        else:
            state = state(lexer.token())
        if tokens_max is not None and lexer.read > tokens_max:
            limit = f"more than {tokens_max} names, values and signs, which is the limit"
            raise SpecError(f"the text has {limit}")
    return Tree(root=parser.root, source=source)


_State: TypeAlias = "Callable[[Token], _State]"


class _ListKind(Enum):
    RELATION = auto()
    SEQUENCE = auto()
    VARIABLE = auto()


class _OpenList:
    """Values read so far between parentheses, with the concatenation still growing."""

    __slots__ = (
        "attribute",
        "chain",
        "kind",
        "last_kind",
        "opening",
        "operator",
        "values",
        "wants",
    )

    def __init__(self, kind: _ListKind, opening: Token) -> None:
        self.kind = kind
        self.opening = opening
        self.values: list[Value] = []
        self.chain: list[Literal | Variable] = []
        self.last_kind = Kind.END
        self.wants = False  # a `#` was read, its right side not yet
        self.attribute = ""
        self.operator = Operator.EQ

    def add(self, item: Literal | Variable, kind: Kind, *, is_adjacent: bool) -> None:
        """Add an item. Two that touch concatenate if one is a variable and none is quoted."""
        joins = self.wants or (
            is_adjacent
            and bool(self.chain)
            and (kind is Kind.DOLLAR or self.last_kind is Kind.DOLLAR)
            and kind is not Kind.QUOTED
            and self.last_kind is not Kind.QUOTED
        )
        if not joins:
            self.finish_chain()
        self.chain.append(item)
        self.last_kind = kind
        self.wants = False

    def finish_chain(self) -> None:
        chain = self.chain
        if not chain:
            return
        if len(chain) == 1:
            self.values.append(chain[0])
        else:
            self.values.append(Concatenation(parts=tuple(chain), offset=chain[0].offset))
        self.chain = []


class _OpenCompound:
    """A connective and the clauses read so far."""

    __slots__ = ("connective", "offset", "operands")

    def __init__(self, connective: Connective, offset: int) -> None:
        self.connective = connective
        self.offset = offset
        self.operands: list[Specification] = []


class _Parser:
    """The automaton. Each state consumes one token and returns the next state."""

    def __init__(self, source: Source) -> None:
        self.root: Specification | None = None
        self._source = source
        self._compounds: list[_OpenCompound] = []
        self._lists: list[_OpenList] = []  # of one relation; empty outside values
        self._name: Token | None = None
        self._dollar: Token | None = None

    # States

    def specification(self, token: Token) -> _State:
        """State: the text begins, or a clause was opened."""
        if token.kind is Kind.CONNECTIVE:
            self._compounds.append(_OpenCompound(_CONNECTIVES[token.text], token.offset))
            return self.clauses
        if token.kind in (Kind.UNQUOTED, Kind.QUOTED):
            self._name = token
            return self._operator
        expected = "`&`, `|` or `+` with clauses, or an attribute name"
        if token.kind is Kind.OPEN:
            place = "in a clause" if self._compounds else "as the whole text"
            expected += f" (a relation in parentheses cannot stand {place} without `&` before it)"
        raise self._error(token, expected)

    def _operator(self, token: Token) -> _State:
        name = self._name
        assert name is not None
        if token.kind is not Kind.OPERATOR:
            raise self._error(token, f"= != < <= > or >= after the attribute {_cut(name.text)}")
        relation = _OpenList(_ListKind.RELATION, name)
        relation.attribute = name.text
        relation.operator = _OPERATORS[token.text]
        self._lists.append(relation)
        return self._values

    def add(self, relation: Relation, opened: int | None) -> None:
        """Add a whole relation to the innermost compound request, or to the one that an `&` at this
        offset opens."""
        if opened is not None:
            self._compounds.append(_OpenCompound(Connective.AND, opened))
        self._compounds[-1].operands.append(relation)

    def clauses(self, token: Token) -> _State:
        """State: inside a compound request, before or behind a clause."""
        compound = self._compounds[-1]
        if token.kind is Kind.OPEN:
            return self.specification
        if not compound.operands:
            raise self._error(token, f"`(`: each clause of `{compound.connective}` has parentheses")
        is_outermost = len(self._compounds) == 1
        if token.kind is not (Kind.END if is_outermost else Kind.CLOSE):
            raise self._error(token, f"`(` or {self._end_of_clause(is_outermost)}")
        self._compounds.pop()
        return self._finish(
            Compound(
                connective=compound.connective,
                operands=tuple(compound.operands),
                offset=compound.offset,
            )
        )

    def _values(self, token: Token) -> _State:
        """State: inside a list of values."""
        top, kind = self._lists[-1], token.kind
        if kind is Kind.UNQUOTED or kind is Kind.QUOTED:
            item = Literal(text=token.text, offset=token.offset)
            top.add(item, kind, is_adjacent=token.is_adjacent)
            return self._values
        if kind is Kind.DOLLAR:
            self._dollar = token
            return self._reference
        if top.wants:
            raise self._error(token, "a literal or a variable after `#`")
        if kind is Kind.OPEN:
            top.finish_chain()
            self._lists.append(_OpenList(_ListKind.SEQUENCE, token))
            return self._values
        if kind is Kind.HASH:
            if not top.chain:
                raise self._error(token, "a literal or a variable before `#`")
            top.wants = True
            return self._values
        return self._end_of_list(token)

    def _reference(self, token: Token) -> _State:
        """State: behind a `$`."""
        assert self._dollar is not None
        if token.kind is not Kind.OPEN:
            raise self._error(token, "`(` after `$`: a reference is written $(NAME)")
        self._lists.append(_OpenList(_ListKind.VARIABLE, self._dollar))
        return self._values

    # What happens at an end

    def _end_of_list(self, token: Token) -> _State:
        top = self._lists[-1]
        is_whole_text = top.kind is _ListKind.RELATION and not self._compounds
        if token.kind is not (Kind.END if is_whole_text else Kind.CLOSE):
            expected = self._expected_in(top, is_whole_text=is_whole_text)
            if token.kind is Kind.CONNECTIVE:
                expected += f" (a literal that begins with {token.text} must be in quotes)"
            raise self._error(token, expected)
        top.finish_chain()
        if not top.values:
            raise self._error(token, self._expected_first(top))
        self._lists.pop()
        values, offset = tuple(top.values), top.opening.offset
        if top.kind is _ListKind.RELATION:
            return self._finish(
                Relation(
                    attribute=top.attribute, operator=top.operator, values=values, offset=offset
                )
            )
        parent = self._lists[-1]
        if top.kind is _ListKind.SEQUENCE:
            parent.values.append(Sequence(values=values, offset=offset))
        else:
            variable = self._variable(values, offset)
            parent.add(variable, Kind.DOLLAR, is_adjacent=top.opening.is_adjacent)
        return self._values

    def _variable(self, values: tuple[Value, ...], offset: int) -> Variable:
        name, *defaults = values
        if not isinstance(name, Literal):
            message = "found a computed variable name, expected one literal: $(NAME)"
            raise self._source.error(message, name.offset)
        if not defaults:
            return Variable(name=name.text, offset=offset)
        if len(defaults) > 1:
            message = "found a third value in a variable reference, expected $(NAME DEFAULT)"
            raise self._source.error(message, defaults[1].offset)
        return Variable(name=name.text, default=self._simple(defaults[0]), offset=offset)

    def _simple(self, default: Value) -> Simple:
        if isinstance(default, Sequence):
            message = "found a sequence as the default of a variable, expected a simple value"
            raise self._source.error(message, default.offset)
        return default

    def _finish(self, specification: Specification) -> _State:
        if not self._compounds:
            self.root = specification
            return self._nothing
        self._compounds[-1].operands.append(specification)
        return self.clauses

    def _nothing(self, token: Token) -> _State:
        raise AssertionError(token)  # END is the last token, and only END finishes the root

    # Words

    def _error(self, token: Token, expected: str) -> SpecError:
        message = f"found {token.shown()}, expected {expected}"
        return self._source.error(message, token.offset)

    def _expected_first(self, top: _OpenList) -> str:
        match top.kind:
            case _ListKind.RELATION:
                return f'a value for {_cut(top.attribute)} (the empty string is written "")'
            case _ListKind.SEQUENCE:
                return 'a value: there is no empty sequence (the empty string is written "")'
            case _ListKind.VARIABLE:
                return "the name of a variable: $(NAME)"

    def _expected_in(self, top: _OpenList, *, is_whole_text: bool) -> str:
        if not top.values and not top.chain:
            return self._expected_first(top)
        match top.kind:
            case _ListKind.RELATION:
                return f"a value or {self._end_of_clause(is_whole_text)}"
            case _ListKind.SEQUENCE:
                return f"a value or `)` to close the sequence opened at {self._at(top.opening)}"
            case _ListKind.VARIABLE:
                return f"a value or `)` to close the reference opened at {self._at(top.opening)}"

    def _end_of_clause(self, is_outermost: bool) -> str:  # noqa: FBT001
        return "the end of the text" if is_outermost else "`)` to close the clause"

    def _at(self, token: Token) -> str:
        position = self._source.position(token.offset)
        assert position is not None
        return f"line {position.line}, column {position.column}"


def _cut(text: str) -> str:
    limit = 40
    return repr(text if len(text) <= limit else text[:limit] + "...")
