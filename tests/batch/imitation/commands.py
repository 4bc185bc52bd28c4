"""Be qsub, qstat, qdel, qhold, qrls, qsig or pbsnodes, by the name of the call; PBS_CONF_FILE names
the server's socket. An option that OpenPBS does not have, or the imitation does not know, ends it
with 2."""

from __future__ import annotations

import getopt
import json
import os
import re
import socket
import sys
from pathlib import Path

OPTIONS = {
    "qsub": "a:A:c:C:e:fhIj:J:k:l:m:M:N:o:p:P:q:r:R:S:u:v:VW:Xz",
    "qstat": "fF:x",
    "qdel": "W:x",
    "qhold": "h:",
    "qrls": "h:",
    "qsig": "s:",
    "pbsnodes": "aF:o:r:v",
}
NAME = re.compile(r"[A-Za-z0-9_+.-]{1,230}")


def main() -> int:
    """Ask the server, and write its answer as the command does."""
    command = Path(sys.argv[0]).name
    try:
        pairs, operands = getopt.gnu_getopt(sys.argv[1:], OPTIONS[command])
    except getopt.GetoptError as error:
        return _fail(f"{command}: {error}\nusage: {command} ...\n", 2)
    given = dict(pairs)
    numbers = [operand.partition(".")[0] for operand in operands]
    match command:
        case "qsub":
            return _submit(pairs)
        case "qstat":
            return _ask("jobs", numbers, with_history="-x" in given)
        case "qdel":
            return _ask("delete", numbers)
        case "qhold" | "qrls":
            if given.get("-h", "u") != "u":
                return _fail(f"{command}: the imitation has holds of users alone\n", 2)
            return _ask("hold", numbers, is_over=command == "qrls")
        case "qsig":
            return _ask("signal", numbers[0], given["-s"])
        case _ if "-o" in given or "-r" in given:
            return _ask("offline", is_offline="-o" in given)
        case _:
            return _ask("nodes")


def _submit(pairs: list[tuple[str, str]]) -> int:
    given = dict(pairs)
    name, directive = given.get("-N", "STDIN"), given.get("-C", "#PBS")
    if not NAME.fullmatch(name):
        return _fail("qsub: illegal -N value\n", 2)
    if given.get("-r", "y") not in ("y", "n"):
        return _fail("qsub: illegal -r value\n", 2)
    if "-J" in given and given.get("-r") == "n":
        return _fail("qsub: cannot submit non-rerunable Array Job\n", 2)
    resources: dict[str, str] = {}
    for option, value in pairs:
        if option == "-l":
            words = [value] if value.startswith("select=") else value.split(",")
            resources |= dict(word.split("=", 1) for word in words)
    script = sys.stdin.read()
    if directive and directive in script:
        return _fail("qsub: the imitation reads no directives\n", 2)
    wishes = {
        "Job_Name": name,
        "queue": given.get("-q", ""),
        "Account_Name": given.get("-A", ""),
        "project": given.get("-P", "_pbs_project_default"),
        "Rerunable": "False" if given.get("-r") == "n" else "True",
        "Priority": int(given.get("-p", "0")),
        "Hold_Types": "u" if "-h" in given else "n",
        "Resource_List": resources,
    }
    return _ask("submit", wishes, script)


def _ask(verb: str, *words: object, **more: bool) -> int:
    """Send a request and print the answer."""
    conf = Path(os.environ.get("PBS_CONF_FILE", "/etc/pbs.conf"))
    try:
        path = conf.read_text().partition("PBS_SERVER=")[2].strip()
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(path)
            line.sendall(json.dumps([verb, *words, *more.values()]).encode() + b"\n")
            status, out, err = json.loads(line.makefile().readline())
    except (OSError, ValueError):
        name = Path(sys.argv[0]).name
        return _fail(f"Connection refused\n{name}: cannot connect to server (errno=111)\n", 1)
    sys.stdout.write(out)
    sys.stderr.write(err)
    return int(status)


def _fail(text: str, status: int) -> int:
    sys.stderr.write(text)
    return status


sys.exit(main())
