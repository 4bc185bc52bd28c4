"""`koala examples`: copy the example jobs and programs into a folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from koala.cli.arguments import file
from koala.cli.output import note
from koala.errors import ConfigError

JOB_SUFFIXES = (".rsl", ".yaml", ".json")


@click.command
@click.argument("folder", type=file, help="A new folder, or an empty one.")
def examples(*, folder: Path) -> None:
    """Copy the example jobs into a folder.

    README.md there says what each shows and how to run it; all run on the grid of `koala up`.
    """
    from koala.local.folders import shipped

    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigError(f"{folder} (expected a new folder, or an empty one)")
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(shipped("examples"), folder, ignore=ignored, dirs_exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror or error}") from error
    jobs = sorted(path for path in folder.rglob("*") if path.suffix in JOB_SUFFIXES)
    for path in jobs:
        print(path)
    note(f"submit one with: koala submit --watch {folder / 'hello.yaml'}")
