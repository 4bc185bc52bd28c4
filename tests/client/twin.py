"""Write the synchronous client from the asynchronous one: `python -m tests.client.twin`.

Each public method becomes a method that runs the coroutine in the background loop. A test compares
the result with koala/client/sync.py.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.sources import ROOT

FOLDER = ROOT / "koala" / "client"
TARGET = FOLDER / "sync.py"

HEADER = '''"""The synchronous client: the methods of `AsyncClient`, without `await`.

    with Client() as client:
        job = client.submit("&(executable=/bin/hostname)(count=4)")
        phase = job.wait()

Works in scripts, in threads, and in notebooks. Written by tests/client/twin.py: never edited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from koala.client.background import ClientBase, Twin
from koala.client.client import AsyncClient
from koala.client.connection import CALL_S
from koala.client.description import Job
from koala.client.job_handle import AsyncJobHandle
from koala.client.records import (
    {records}
)
from koala.client.submission import Submission
from koala.errors import KoalaError
from koala.identity.credentials import Credentials

__all__ = ["Client", "JobHandle"]


class JobHandle(Twin):
    """A submitted job: its id, the warnings of its submission, and methods about it."""

    def __init__(self, inner: AsyncJobHandle) -> None:
        self._inner = inner

    def __repr__(self) -> str:
        return f"{{type(self).__name__}}({{self.job!r}})"

{handle}


class Client(ClientBase):
    """Connection to a daemon, opened at once. `close` closes it, or the end of `with`.

    - Without `credentials` the client finds them itself.
    - `user` names the caller on plain-text connections and is ignored elsewhere.
    - `timeout` limits each call, in seconds: NoAnswerError, which is a TimeoutError.
    """

    def __init__{init} -> None:
        self._open(AsyncClient(address, user=user, credentials=credentials, timeout=timeout))

{client}
'''

Method = ast.FunctionDef | ast.AsyncFunctionDef


def text() -> str:
    """Make the text of the synchronous module."""
    client = _class("client.py", "AsyncClient")
    grid = _class("grid_calls.py", "AsyncGridCalls")
    init = next(
        one for one in client.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"
    )
    files = _class("file_calls.py", "AsyncFileCalls")
    calls = (*_public(client), *_public(grid), *_public(files))
    methods = "\n".join(_twin(one) for one in calls)
    handle = "\n".join(_twin(one) for one in _public(_class("job_handle.py", "AsyncJobHandle")))
    known = re.findall(r"^class (\w+)\(", (FOLDER / "records.py").read_text(), re.MULTILINE)
    known += ["LogPart", "OutputFile", "OutputPart"]
    used = sorted({name for name in known if re.search(rf"\b{name}\b", methods + handle)})
    module = HEADER.format(
        records="\n    ".join(f"{name}," for name in used),
        handle=handle,
        init=f"({ast.unparse(init.args)})",
        client=methods,
    )
    return _formatted(module)


def _class(file: str, name: str) -> ast.ClassDef:
    tree = ast.parse((FOLDER / file).read_text(encoding="utf-8"))
    return next(one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == name)


def _public(kind: ast.ClassDef) -> Iterator[Method]:
    for one in kind.body:
        if isinstance(one, Method) and not one.name.startswith("_"):
            yield one


def _twin(method: Method) -> str:
    """Write the synchronous method of an asynchronous one."""
    returns = ast.unparse(method.returns or ast.Constant(None))
    is_property = any(ast.unparse(one) == "property" for one in method.decorator_list)
    called = f"self._inner.{method.name}"
    if not is_property:
        called = f"{called}({_passed(method.args)})"
    if returns.startswith("AsyncIterator["):
        called, returns = f"self._iterate({called})", returns.removeprefix("Async")
    elif isinstance(method, ast.AsyncFunctionDef):
        called = f"self._run({called})"
    if returns == "AsyncJobHandle":
        called = f"JobHandle({called})"
    elif returns == "list[AsyncJobHandle | KoalaError]":
        called = f"[JobHandle(one) if isinstance(one, AsyncJobHandle) else one for one in {called}]"
    elif "AsyncJobHandle" in returns:
        raise ValueError(f"{method.name} returns {returns}: allowed is a handle or a list of them")
    returns = returns.replace("AsyncJobHandle", "JobHandle")
    docstring = ast.get_docstring(method, clean=False)
    return (
        ("    @property\n" if is_property else "")
        + f"    def {method.name}({ast.unparse(method.args)}) -> {returns}:\n"
        + f'        """{docstring}"""\n'
        + f"        return {called}\n"
    )


def _passed(arguments: ast.arguments) -> str:
    """Pass on the arguments of a method."""
    by_place = [one.arg for one in arguments.args[1:]]
    return ", ".join(by_place + [f"{one.arg}={one.arg}" for one in arguments.kwonlyargs])


def _formatted(module: str) -> str:
    ruff = [
        str(Path(sys.executable).with_name("ruff")),
        "format",
        "--stdin-filename",
        str(TARGET),
        "-",
    ]
    done = subprocess.run(ruff, input=module, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
