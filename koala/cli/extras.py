"""Checks of commands for optional packages (extras)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from koala.common.runtime.software import SIM, WEB, missing_text
from koala.errors import ConfigError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def needs_sim(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorate a command: raise ConfigError first if a package of the extra `sim` is missing."""
    return _needs("sim", SIM, command)


def needs_web(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorate a command: raise ConfigError first if a package of the extra `web` is missing."""
    return _needs("web", WEB, command)


def _needs(
    extra: str, packages: tuple[str, ...], command: Callable[Parameters, Result]
) -> Callable[Parameters, Result]:
    @wraps(command)
    def checked(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
        if text := missing_text(extra, packages):
            raise ConfigError(text)
        return command(*args, **options)

    return checked
