"""Checks for optional packages (extras): some commands need more than a grid does."""

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
WEB = ("starlette", "uvicorn", "jinja2")
"""Packages of the extra `web`."""


def needs_sim(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorate a command: raise ConfigError first if a package of the extra `sim` is missing."""
    return _needs("sim", SIM, command)


def needs_web(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorate a command: raise ConfigError first if a package of the extra `web` is missing."""
    return _needs("web", WEB, command)


def missing_text(extra: str, packages: tuple[str, ...]) -> str:
    """Explain which packages of an extra are missing; empty if all are there."""
    missing = [package for package in packages if find_spec(package) is None]
    if not missing:
        return ""
    return (
        f"needs the extra: pip install 'koala-scheduler[{extra}]', in a clone: make setup"
        f" ({sys.executable} does not have {' and '.join(missing)})"
    )


def _needs(
    extra: str, packages: tuple[str, ...], command: Callable[Parameters, Result]
) -> Callable[Parameters, Result]:
    @wraps(command)
    def checked(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
        if text := missing_text(extra, packages):
            raise ConfigError(text)
        return command(*args, **options)

    return checked
