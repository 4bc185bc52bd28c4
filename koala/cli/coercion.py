"""Convert command-line values without importing pydantic, to shorten the start.

Newer versions of typer convert every value with pydantic, which adds about 50 ms to each command.
This module replaces the conversion of text, lists of text, paths, flags and bounded numbers, and
also refuses numbers outside `is_sensible`.

It patches private attributes of typer. Other versions of typer, and parameters of other types, keep
typer's own conversion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isinf
from pathlib import Path
from typing import Any, get_args, get_origin

import typer

try:
    from typer._coercion import RuntimeParam
except ImportError:  # a version without pydantic
    RuntimeParam = None  # type: ignore[assignment, misc]  # nothing to replace


def avoid_pydantic(command: Any) -> None:  # noqa: ANN401 - typer's own classes of commands
    """Replace the conversion of the simple parameters of a command and its subcommands."""
    if RuntimeParam is None:
        return
    for parameter in _parameters(command):
        descriptor = getattr(parameter, "type_descriptor", None)
        if descriptor is None or not hasattr(parameter, "_runtime_param"):
            continue
        if (plain := _plain_type(descriptor.annotation)) is not None:
            parameter._runtime_param = _PlainParam(  # noqa: SLF001 - typer checks it first
                parameter_info=descriptor.parameter_info, annotation=plain
            )


if RuntimeParam is not None:

    class _PlainParam(RuntimeParam):
        """Conversion by calling the type itself."""

        def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401
            if isinstance(value, (list, tuple)):
                return [self._one(item, param, ctx) for item in value]
            return self._one(value, param, ctx)

        def _one(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401
            try:
                if self.annotation is bool:
                    return value if isinstance(value, bool) else _WORDS[str(value).lower()]
                if self.annotation in (int, float):
                    return _bounded(self.annotation(value), self.parameter_info)
            except (KeyError, ValueError):
                allowed = _ALLOWED.get(self.annotation, ", ".join(_WORDS))
                raise typer.BadParameter(f"{value!r}: allowed are {allowed}", ctx, param) from None
            return Path(value) if self.annotation is Path else str(value)


_WORDS = {"1": True, "true": True, "yes": True, "on": True} | {
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}
"""Values of a flag in an environment variable."""


def is_sensible(number: float) -> bool:
    """True for 0, infinity and magnitudes that calculations can use; False for nan.

    Durations, loads and shares are never outside these bounds, and products of numbers outside
    would overflow. Settings that must be finite check that themselves.
    """
    return number == 0 or SENSIBLE_MIN <= abs(number) <= SENSIBLE_MAX or isinf(number)


SENSIBLE_MIN, SENSIBLE_MAX = 1e-12, 1e15
SENSIBLE = f"0 and numbers from {SENSIBLE_MIN:g} to {SENSIBLE_MAX:g}, also below 0"


_ALLOWED: dict[object, str] = {int: "whole numbers", float: "numbers"}


def _bounded(number: float, parameter: Any) -> float:  # noqa: ANN401
    low, high = parameter.min, parameter.max
    is_inside = (low is None or number >= low) and (high is None or number <= high)
    if isinstance(number, float) and not is_sensible(number):  # nor is nan
        raise typer.BadParameter(f"{number}: allowed are {SENSIBLE}")
    if not is_inside:
        within = "" if low is None else f" from {low:g}"
        within += "" if high is None else f" to {high:g}"
        raise typer.BadParameter(f"{number}: allowed is a number{within}")
    return number


def _parameters(command: Any, names: Sequence[str] = ()) -> Iterator[Any]:  # noqa: ANN401
    """Iterate over all parameters, including the help option, which a command creates once."""
    names = names or command.context_settings.get("help_option_names", ("--help",))
    yield from command.params
    yield command.get_help_option(typer.Context(command, help_option_names=list(names)))
    for inner in getattr(command, "commands", {}).values():
        yield from _parameters(inner, names)


def _plain_type(annotation: object) -> type | None:
    """Find the simple type (`str`, `int`, `float`, `bool`, `Path`) of an annotation, also when
    optional or in a list; None for other types."""
    if annotation in (str, int, float, bool, Path):
        assert isinstance(annotation, type)
        return annotation
    if get_origin(annotation) is list or type(None) in get_args(annotation):
        inner = [_plain_type(a) for a in get_args(annotation) if a is not type(None)]
        return inner[0] if len(inner) == 1 else None
    return None
