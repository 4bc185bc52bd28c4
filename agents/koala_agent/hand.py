"""What the agent of a site does in an account's own folders: a program that runs as the account.

    python -I -S hand.py REQUEST        REQUEST is a JSON object; none of it is secret

The agent itself never opens, makes or removes anything below a folder that belongs to an account: a
link that the account puts there would lead it elsewhere with the agent's rights. This program has
the account's rights only, so there is nothing to gain. It stands alone: standard library, no other
file. What it answers is whatever the account wants it to answer, and is believed for the account's
own claims alone.

install  tree from standard input (JSON, file names to base64) to ROOT/PLACE, unless it is there
prepare  ROOT/FOLDER with the specification from standard input; needs INSTALLED
write    SIZE bytes from standard input, from OFFSET on, to NAME in ROOT/FOLDER
read     up to SIZE bytes of the first of FILES that is there, from OFFSET on
pack     all FILES, one after the other
sweep    removes folders of ROOT that nobody touched since BEFORE, but those KEPT

The answer is a line of JSON on standard output, and for read and pack the bytes it speaks of; an
error is a line with `error`. A file is [BASE, NAME]: opened below BASE without following links.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import stat
import sys
from typing import Any

Request = dict[str, Any]

STATE_FOLDER = ".koala"
BLOCK_BYTES = 1024 * 1024


def main(arguments: list[str]) -> int:
    """The command; its exit status."""
    os.umask(0o077)
    request = json.loads(arguments[-1])
    try:
        DEEDS[request["do"]](request)
    except OSError as error:
        say({"error": f"{error.filename or request['root']}: {error.strerror or error}"})
        return 1
    sys.stdout.flush()
    return 0


def say(answer: dict[str, object]) -> None:
    """A line, before the bytes that belong to it."""
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")


def make_root(request: Request) -> str:
    """The folder of all claims of this account here, for the account alone."""
    root = str(request["root"])
    os.makedirs(root, mode=0o700, exist_ok=True)
    found = os.stat(root)
    if found.st_uid != os.geteuid():
        raise OSError(0, f"belongs to uid {found.st_uid}, not to {os.geteuid()}", root)
    if stat.S_IMODE(found.st_mode) & 0o077:
        os.chmod(root, 0o700)
    return root


def install(request: Request) -> None:
    """All or nothing: a second one that comes meanwhile finds the whole or makes its own."""
    target = os.path.join(make_root(request), request["place"])
    if not os.path.isdir(target):
        new = f"{target}.new.{os.getpid()}"
        for name, content in json.load(sys.stdin.buffer).items():
            path = os.path.join(new, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(base64.b64decode(content))
        try:
            os.rename(new, target)
        except OSError:
            shutil.rmtree(new)
            if not os.path.isdir(target):
                raise
    say({})


def prepare(request: Request) -> None:
    """The claim's folder; a starter that waits already may read the specification while a newer
    one is put in its place."""
    root = make_root(request)
    if not os.path.isdir(os.path.join(root, request["installed"])):
        say({"lacks": request["installed"]})
        return
    state = os.path.join(root, request["folder"], STATE_FOLDER)
    os.makedirs(state, exist_ok=True)
    with open(os.path.join(state, "spec.new"), "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    os.replace(os.path.join(state, "spec.new"), os.path.join(state, "spec.json"))
    say({})


def write(request: Request) -> None:
    """Beside the target first, so that it is whole or not there."""
    path = os.path.join(request["root"], request["folder"], request["name"])
    left = request["size"]
    with open(path + ".new", "wb") as file:
        while left > 0:
            block = os.read(0, min(left, BLOCK_BYTES))
            if not block:
                raise OSError(0, f"the file ends {left} bytes before the part does", path)
            file.write(block)
            left -= len(block)
    os.replace(path + ".new", path)
    say({})


def read(request: Request) -> None:
    """`found` is which of the files it was, None when there is none."""
    for index, (base, name) in enumerate(request["files"]):
        descriptor = opened(base, name)
        if descriptor is not None:
            data = os.pread(descriptor, request["size"], request["offset"])
            say({"found": index, "bytes": os.fstat(descriptor).st_size, "size": len(data)})
            sys.stdout.buffer.write(data)
            return
    say({"found": None, "bytes": 0, "size": 0})


def pack(request: Request) -> None:
    """Of each the size it has now, and so many bytes; a size of None with the reason."""
    for base, name in request["files"]:
        try:
            descriptor = opened(base, name)
        except OSError as error:
            say({"size": None, "error": error.strerror})
            continue
        if descriptor is None:
            say({"size": None, "error": "no such file"})
            continue
        size = os.fstat(descriptor).st_size
        say({"size": 0 if request["is_asking"] else size})
        sys.stdout.flush()
        left = 0 if request["is_asking"] else size
        while left > 0:
            # What was cut off meanwhile is told as zeros rather than as what comes next.
            block = os.read(descriptor, min(left, BLOCK_BYTES)) or bytes(min(left, BLOCK_BYTES))
            sys.stdout.buffer.write(block)
            left -= len(block)
        os.close(descriptor)


def sweep(request: Request) -> None:
    """As far as it goes; what cannot be removed now is tried again."""
    root, kept = request["root"], set(request["kept"])
    names = sorted(os.listdir(root)) if os.path.isdir(root) else []
    for name in names:
        folder = os.path.join(root, name)
        is_ours = os.path.isdir(folder) and not os.path.islink(folder)
        is_claim = is_ours and not name.startswith(".") and name not in kept
        if is_claim and touched_at(folder) < request["before"]:
            shutil.rmtree(folder, ignore_errors=True)
    say({})


def touched_at(folder: str) -> float:
    """When the starter last wrote."""
    times = []
    for path in (folder, os.path.join(folder, STATE_FOLDER)):
        with contextlib.suppress(OSError):
            times.append(os.lstat(path).st_mtime)
    return max(times, default=0.0)


def opened(base: str, name: str) -> int | None:
    """A regular file below `base`; None when there is none. A symbolic link is an error."""
    parts = name.split("/")
    if not all(parts) or "." in parts or ".." in parts:
        return None
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        place = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for i, part in enumerate(parts):
            is_last = i == len(parts) - 1
            last, place = (
                place,
                os.open(part, flags | (0 if is_last else os.O_DIRECTORY), dir_fd=place),
            )
            os.close(last)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(os.fstat(place).st_mode):
        os.close(place)
        return None
    return place


DEEDS = {
    "install": install,
    "prepare": prepare,
    "write": write,
    "read": read,
    "pack": pack,
    "sweep": sweep,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv))
