"""Checks for optional packages (extras): simulations need some that a grid does not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from typing import ParamSpec, TypeVar

from koala.errors import ConfigError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

SIM = ("scipy", "matplotlib")
"""Packages of the extra `sim`."""


def needs_sim(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorate a command: raise ConfigError first if a package of the extra `sim` is missing."""

    @wraps(command)
    def checked(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
        missing = [package for package in SIM if find_spec(package) is None]
        if missing:
            raise ConfigError(
                "needs the extra: pip install 'koala-scheduler[sim]', in a clone: make setup"
                f" ({sys.executable} does not have {' and '.join(missing)})"
            )
        return command(*args, **options)

    return checked
