"""Generate koala/common/wire/v1 from the files below proto: messages, gRPC stubs and their types.

    python proto/generate.py             writes into the source tree
    python proto/generate.py --check     only compares; exit status 1 and the names of what differs
    python proto/generate.py --out DIR   writes below DIR (DIR/koala/common/wire/v1)

The output is committed, so that a clone runs without a compiler; a test calls this and compares.
The compiler and the type plug-in are pinned in pyproject.toml: another version writes other text.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
ROOT = SOURCES.parent
PACKAGE = Path("koala/common/wire/v1")
LINK_STUB = '''"""Messages of the link; `koala.common.protocol.messages` declares their types."""

from typing import Any

from google.protobuf.message import Message

class FromAgent(Message):
    def __init__(self, **kinds: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class ToAgent(Message):
    def __init__(self, **kinds: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

def __getattr__(name: str) -> Any: ...
'''
PACKAGE_DOCSTRING = (
    '"""Generated from proto/koala/common/wire/v1 by proto/generate.py: never edited."""\n'
)


def generate(out: Path) -> list[Path]:
    """Write the generated package below `out`; return its files, relative to `out`, in order.

    Raises RuntimeError with the compiler's own words when a .proto file is wrong.
    """
    protos = sorted((SOURCES / PACKAGE).glob("*.proto"))
    target = out / PACKAGE
    target.mkdir(parents=True, exist_ok=True)
    target.joinpath("__init__.py").write_text(PACKAGE_DOCSTRING, encoding="utf-8")
    if protos:
        _compile(protos, out)
        for proto in protos:
            module = target / f"{proto.stem}_pb2_grpc.py"
            module.write_text(service_module(proto), encoding="utf-8")
        target.joinpath("link_pb2.pyi").write_text(LINK_STUB, encoding="utf-8")
    return sorted(path.relative_to(out) for path in target.iterdir() if path.is_file())


def service_module(proto: Path) -> str:
    """Write the module of a file's services, which `wire.services` makes from descriptors."""
    messages = f"{proto.stem}_pb2"
    lines = [
        f'"""Services of {proto.name}: stubs, servicers, and how a server gets one."""',
        "",
        "from koala.common.wire.services import adder, servicer, stub",
        f"from koala.common.wire.v1 import {messages}",
    ]
    for name in re.findall(r"^service (\w+)", proto.read_text(encoding="utf-8"), re.MULTILINE):
        lines += [
            "",
            f'_{name} = {messages}.DESCRIPTOR.services_by_name["{name}"]',
            f"{name}Stub = stub(_{name})",
            f"{name}Servicer = servicer(_{name})",
            f"add_{name}Servicer_to_server = adder(_{name})",
        ]
    return "\n".join(lines) + "\n"


def differences(expected_root: Path, actual_root: Path) -> list[str]:
    """Say which generated files are missing, superfluous or other; an empty list means none."""
    expected = _texts(expected_root / PACKAGE)
    actual = _texts(actual_root / PACKAGE)
    found = [f"{name} is missing" for name in expected if name not in actual]
    found += [f"{name} has no source" for name in actual if name not in expected]
    found += [
        f"{name} differs" for name in expected if name in actual and expected[name] != actual[name]
    ]
    return sorted(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments, generate or compare, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only")
    parser.add_argument("--out", type=Path, default=ROOT, help="root of the output")
    options = parser.parse_args(arguments)
    try:
        if not options.check:
            _replace(options.out)
            return 0
        with tempfile.TemporaryDirectory() as scratch:
            generate(Path(scratch))
            found = differences(Path(scratch), options.out)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 2
    for line in found:
        print(f"{PACKAGE}/{line}; run: make proto", file=sys.stderr)
    return 1 if found else 0


def _replace(out: Path) -> None:
    """Generate aside first, so that a compiler error leaves the tree as it was."""
    with tempfile.TemporaryDirectory() as scratch:
        files = generate(Path(scratch))
        target = out / PACKAGE
        target.mkdir(parents=True, exist_ok=True)
        for old in _texts(target):
            (target / old).unlink()
        for file in files:
            shutil.copyfile(Path(scratch) / file, out / file)
    print(f"{PACKAGE}: {len(files)} files", file=sys.stderr)


def _compile(protos: list[Path], out: Path) -> None:
    plugin = Path(sys.executable).parent / "protoc-gen-mypy_grpc"  # on PATH or not
    if not plugin.exists():
        message = f"{plugin} is missing: install the extra 'dev' (make setup)"
        raise RuntimeError(message)
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"--plugin=protoc-gen-mypy_grpc={plugin}",
        f"--proto_path={SOURCES}",
        f"--python_out={out}",
        f"--pyi_out={out}",
        f"--mypy_grpc_out=only_async:{out}",
        *(str(proto) for proto in protos),
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        message = f"protoc failed with status {run.returncode}:\n{run.stderr}"
        raise RuntimeError(message)


def _texts(folder: Path) -> dict[str, bytes]:
    if not folder.is_dir():
        return {}
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


if __name__ == "__main__":
    sys.exit(main())
