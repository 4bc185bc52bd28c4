"""Declare a paper's simulation: its options, and how a setting is made of their values.

Each paper has a module `options` with its `SIMULATION`. `koala simulate` makes a command of it, and
`koala.lab` takes the same options by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from koala.lab.sim.options import Option, option_name, options_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """Options of a simulation, and the function that makes its setting of their values."""

    options: Mapping[str, Option]
    make: Callable[..., Any]

    @classmethod
    def of(
        cls,
        setting: type,
        *,
        make: Callable[..., Any] | None = None,
        more: Mapping[str, Option] | None = None,
    ) -> Self:
        """Take the options that the fields of `setting` declare, and `more` that are not fields;
        without `make` the class itself takes the values."""
        return cls(options={**options_of(setting), **(more or {})}, make=make or setting)

    def values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Read the values of all options. Raises ConfigError."""
        return {
            name: one.read(option_name(name, one), given[name]) if one.read else given[name]
            for name, one in self.options.items()
        }

    def setting(self, given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a dataclass
        """Make the setting of the values of all options. Raises ConfigError."""
        return self.make(**self.values(given))
