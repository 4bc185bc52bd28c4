"""The installed software: its version, and the optional packages (extras) that it lacks."""

from __future__ import annotations

import sys

DISTRIBUTION = "koala-scheduler"
SIM = ("scipy", "matplotlib")
"""Packages of the extra `sim`."""
WEB = ("starlette", "uvicorn", "jinja2")
"""Packages of the extra `web`."""
MQTT = ("aiomqtt",)
"""Packages of the extra `mqtt`."""
METRICS = ("prometheus_client",)
"""Packages of the extra `metrics`."""
OTEL = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
"""Packages of the extra `otel`."""


def software_version() -> str:
    """Return the version of this software; "0" for a source tree that is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slow

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0"


def missing_text(extra: str, packages: tuple[str, ...]) -> str:
    """Explain which packages of an extra are missing; empty if all are there."""
    missing = [package for package in packages if not _is_there(package)]
    if not missing:
        return ""
    return (
        f"needs the extra: pip install 'koala-scheduler[{extra}]', in a clone:"
        f" pip install '.[{extra}]' ({sys.executable} does not have {', '.join(missing)})"
    )


def _is_there(package: str) -> bool:
    from importlib.util import find_spec  # noqa: PLC0415 - slow

    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the package that should contain it is not there
        return False
