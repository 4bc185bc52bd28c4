"""Self-contained batch scripts, for compute nodes that share no file system with the agent.

The script makes a private scratch folder, pipes the starter to the interpreter, waits, and removes
the folder, however the starter ends. If it is killed itself, a later starter does so
(`temporary_folder`). The claim's secret is in the script's body and in files of the scratch folder,
which only its owner can read; never in arguments or environment.
"""

from __future__ import annotations

import base64
import json
import shlex
import zlib

SHELL = """\
umask 077
d=$(mktemp -d "${1:-${TMPDIR:-/tmp}}/koala-on-$(uname -n | cut -c-32)-XXXXXXXX") || exit 71
trap 'trap "" HUP INT TERM XCPU USR1 USR2
rm -rf "$d" 2> /dev/null || { find "$d" -type d -exec chmod u+rwx {} \\; ; rm -rf "$d"; }' EXIT
trap : HUP USR1
trap 'kill -TERM "$p" 2> /dev/null' TERM INT XCPU USR2
"$2" -I -S -c 'import json, sys; given = json.loads(sys.stdin.readline()); exec(given["boot"])' \\
  "$d" <&3 3<&- &
p=$! s=0
while kill -0 "$p" 2> /dev/null; do wait "$p"; s=$?; done
exit "$s"
"""
"""$1 is the parent of scratch folders, $2 the interpreter. Programs that unpack or build leave
read-only folders."""

BOOT = """\
import base64, gc, os, zlib
gc.set_threshold(50000)
files = json.loads(zlib.decompress(base64.b85decode(given["archive"])))
folder, base = sys.argv[1], os.path.join(sys.argv[1], "starter")
class Carried:
    def find_spec(name, path=None, target=None):
        for end in ("/__init__.py", ".py"):
            file = name.replace(".", "/") + end
            if file in files:
                kind = type(sys.__spec__)
                return kind(name, Carried, origin=file, is_package=end != ".py")
    def create_module(spec):
        return None
    def exec_module(module):
        file = module.__spec__.origin
        exec(compile(files[file], file, "exec"), module.__dict__)
if given.get("spec", {}).get("job_type", "mpi") != "mpi":
    sys.meta_path.insert(0, Carried)
else:
    for name, text in files.items():
        path = os.path.join(base, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    sys.path.insert(0, base)
sys.argv = [os.path.join(base, "starter.py")]
from koala_agent.starter.commands import unpacked
sys.exit(unpacked(given, folder))
"""
"""Code for the interpreter: imports the starter from memory and runs it. One whose program has
launchers, and a helper, unpack it into the folder: the launchers are started from there."""


def archive(modules: dict[str, str]) -> str:
    """Pack the starter's files into a text without blanks.

    Large files come first: they repeat one another, and zlib looks back over 32 kB only.
    """
    ordered = dict(sorted(modules.items(), key=lambda item: len(item[1]), reverse=True))
    return base64.b85encode(zlib.compress(json.dumps(ordered).encode(), 9)).decode()


def body(specification: dict[str, object], *, archive: str, python: str, scratch: str) -> str:
    """Return the script."""
    given = {
        "shell": SHELL,
        "boot": BOOT,
        "archive": archive,
        "python": python,
        "scratch": scratch,
        "spec": specification,
    }
    # JSON has no line ends, and so nothing that could be the end of the here-document.
    return "\n".join(
        [
            "exec 3<<'KOALA'",
            json.dumps(given),
            "KOALA",
            shlex.join(["set", "--", scratch, python]),
            SHELL,
        ]
    )
