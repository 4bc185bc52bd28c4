"""The version of this software."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

DISTRIBUTION = "koala-scheduler"


def software_version() -> str:
    """Return the version of this software; "0" for a source tree that is not installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0"
