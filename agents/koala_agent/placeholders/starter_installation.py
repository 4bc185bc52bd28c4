"""Install the starter's modules in a folder that compute nodes see, or pack them for batch scripts.

ROOT/.starter/VERSION/   the modules, and their checksum
"""

from __future__ import annotations

import hashlib
import marshal
import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from importlib.util import MAGIC_NUMBER
from pathlib import Path

from koala_agent.placeholders.batch_script import archive
from koala_agent.placeholders.launch_settings import LaunchSettings
from koala_agent.placeholders.portable_source import portable

STARTERS = ".starter"
"""Folder of the installed starters, among the claims' folders."""
PACKAGE = "koala_agent/starter"
"""Folder of the starter's modules in an installed starter."""
PYC_HEADER_BYTES = 16
CHECKSUM = "checksum"
BOOT = """\
import gc, os, sys
gc.set_threshold(50000)
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from koala_agent.starter.commands import main
sys.exit(main(sys.argv))
"""


def install_starter(settings: LaunchSettings) -> tuple[str, ...]:
    """Install the starter in a shared folder; return the beginning of its command. Without a shared
    file system batch jobs carry the starter.

    Each version has a folder of its own: waiting batch jobs keep the version that they were
    submitted with, and none finds a half-replaced one.
    """
    settings.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not settings.shared:
        # Here and once: Python 3.11 fails to parse in two threads at the same time.
        starter_archive(by_files=bool(settings.mailbox))
        return ("/bin/sh",)
    is_compiled = settings.python is None
    files = _files(_portable_modules())
    mark = hashlib.sha256(repr((files, is_compiled, sys.version)).encode()).hexdigest()[:16]
    folder = settings.root / STARTERS / mark
    name = "starter.pyc" if is_compiled else "starter.py"
    if not _is_whole(folder):
        (folder / PACKAGE).mkdir(mode=0o700, parents=True, exist_ok=True)
        for path, text in files:
            (folder / path).parent.mkdir(mode=0o700, exist_ok=True)
            _install(folder / path, text, is_compiled=is_compiled)
        (folder / CHECKSUM).write_text(_checksum(folder), encoding="ascii")
    return (settings.python or sys.executable, "-I", "-S", str(folder / name))


def is_installed(settings: LaunchSettings, command: tuple[str, ...]) -> bool:
    """Check that the starter of this command is still there, and complete."""
    return not settings.shared or _is_whole(Path(command[-1]).parent)


Stamps = tuple[tuple[str, int, int, int], ...]
"""Path, inode, size and change time in nanoseconds of each file: all is as it was while they are.
"""


def stamps_of(settings: LaunchSettings, command: tuple[str, ...]) -> Stamps:
    """Return the stamps of an installed starter's files; a tenth of the cost of `is_installed`."""
    return () if not settings.shared else tuple(sorted(_stamps(str(Path(command[-1]).parent))))


def _stamps(folder: str) -> Iterator[tuple[str, int, int, int]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _stamps(entry.path)
                else:
                    status = entry.stat(follow_symlinks=False)
                    yield entry.path, status.st_ino, status.st_size, status.st_ctime_ns
    except FileNotFoundError:
        return  # somebody has just removed it


def _is_whole(folder: Path) -> bool:
    """Verify the checksum of an installed starter: a power failure may leave empty files."""
    try:
        return (folder / CHECKSUM).read_text(encoding="ascii") == _checksum(folder)
    except (OSError, UnicodeDecodeError):
        return False


def _checksum(folder: Path) -> str:
    """Return the checksum of all modules below a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py*")):
        if path.parent.name == "__pycache__":
            continue  # compiled by an interpreter on its own
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


NOT_CARRIED = (
    "resident/__init__.py",
    "resident/forked.py",
    "resident/parent.py",
    "resident/process_title.py",
)
"""Modules of the starter that only the agent's own machine runs."""
BY_FILES = "mailbox/"
"""Folder of the starter's modules for those that cannot dial."""


@cache
def starter_archive(*, by_files: bool) -> str:
    """Return the starter as an archive, for machines without a shared file system."""
    modules = [
        (name, text)
        for name, text in _portable_modules()
        if name not in NOT_CARRIED and (by_files or not name.startswith(BY_FILES))
    ]
    return archive(dict(_files(modules)))


def _files(modules: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return all files of the starter: its modules in their package, and what runs them."""
    inside = [(f"{PACKAGE}/{name}", text) for name, text in modules]
    return (("starter.py", BOOT), ("koala_agent/__init__.py", ""), *inside)


@cache
def _portable_modules() -> tuple[tuple[str, str], ...]:
    """Read all modules of the starter, for interpreters from Python 3.6 on."""
    return tuple((name, portable(text)) for name, text in _modules())


def _modules() -> tuple[tuple[str, str], ...]:
    """Read all modules of the starter, by their paths below its package."""
    package = Path(str(resources.files("koala_agent"))) / "starter"
    paths = sorted(package.rglob("*.py"))
    return tuple((str(p.relative_to(package)), p.read_text(encoding="utf-8")) for p in paths)


def _install(target: Path, text: str, *, is_compiled: bool) -> None:
    """Write a module, compiled if the interpreter is our own."""
    if is_compiled:
        target, content = target.with_suffix(".pyc"), _bytecode(target.name, text)
    else:
        content = text.encode()
    new = target.with_suffix(".new")
    new.write_bytes(content)
    new.replace(target)


@cache
def _bytecode(name: str, text: str) -> bytes:
    """Compile a module to the content of a .pyc file without a source, whose header holds nothing
    but the version of the byte code.

    Cached: to compile all modules takes 0.1 s, and each site of this process installs the same.
    """
    code = compile(text, name, "exec", dont_inherit=True)
    return MAGIC_NUMBER + bytes(PYC_HEADER_BYTES - len(MAGIC_NUMBER)) + marshal.dumps(code)
