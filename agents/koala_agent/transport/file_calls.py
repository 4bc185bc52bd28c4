"""Calls on the files of a site, as the agent makes them here, or over ssh as lines of JSON.

Over ssh the agent sends this file to a Python at the host, 3.6 or newer: it imports nothing of
Koala. A line is `[NUMBER, CALL, PATH, ARGUMENT ...]`, its answer `[NUMBER, ERRNO, WORDS, RESULT]`;
bytes are in base64. Paths are bytes: nothing is quoted, and no shell sees them.
"""

import base64
import binascii
import errno
import json
import os
import stat
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


READY = b"koala-files 1\n"


def put(path: bytes, content: bytes, is_durable: bool) -> None:  # noqa: FBT001 - it comes in a line
    """Write a file for its owner alone, and replace the one that is there in one step."""
    folder, name = os.path.split(path)
    suffix = binascii.hexlify(os.urandom(4))
    new = os.path.join(folder, b"." + name[:200] + b"." + suffix)
    number = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            if is_durable:
                os.fsync(file.fileno())
        os.replace(new, path)
    except OSError:
        remove(new)
        raise


def get(path: bytes, size_max: int) -> bytes:
    """Read a file, at most so many bytes."""
    with open(path, "rb") as file:
        return file.read(size_max)


def status(path: bytes) -> "list[int] | None":
    """Return size, kind (folder, regular file), owner and mode; None when nothing is there."""
    try:
        entry = os.lstat(path)
    except FileNotFoundError:
        return None
    kind = stat.S_ISDIR(entry.st_mode), stat.S_ISREG(entry.st_mode)
    return [entry.st_size, *kind, entry.st_uid, stat.S_IMODE(entry.st_mode)]


def names(path: bytes) -> "list[bytes]":
    """Return the names in a folder, sorted."""
    return sorted(os.listdir(path))


def make_folder(path: bytes) -> None:
    """Make a folder for its owner alone; one that exists is left as it is."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def remove(path: bytes) -> None:
    """Remove a file; one that is not there is no error."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def remove_folder(path: bytes) -> None:
    """Remove an empty folder; one that is not there is no error."""
    with suppress(FileNotFoundError):
        os.rmdir(path)


CALLS: "dict[str, Callable[..., object]]" = {
    "put": put,
    "get": get,
    "status": status,
    "names": names,
    "make_folder": make_folder,
    "remove": remove,
    "remove_folder": remove_folder,
}


def call(name: str, path: bytes, *arguments: object) -> object:
    """Make a call by its name; a relative path begins at the home directory."""
    return CALLS[name](os.path.join(os.path.expanduser(b"~"), path), *arguments)


def serve() -> None:
    """Answer lines until the connection ends."""
    output = sys.stdout.buffer
    output.write(READY)
    output.flush()
    for line in sys.stdin.buffer:
        number, name, *texts = json.loads(line.decode())
        try:
            path, *arguments = [plain(text) for text in texts]
            assert isinstance(path, bytes)
            answer = [0, "", lined(call(name, path, *arguments))]
        except OSError as error:
            answer = [error.errno or errno.EIO, error.strerror or str(error), None]
        output.write(json.dumps([number, *answer]).encode() + b"\n")
        output.flush()


def lined(value: object) -> object:
    """Return a value as a line may have it: bytes as text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return [lined(part) for part in value] if isinstance(value, list) else value


def plain(value: object) -> object:
    """Return a value of a line as it was: text as bytes."""
    if isinstance(value, str):
        return base64.b64decode(value)
    return [plain(part) for part in value] if isinstance(value, list) else value


if __name__ == "__main__":
    serve()
