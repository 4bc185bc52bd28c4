"""Configuration files of daemon and agent: settings, or an error of ours."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import TypeAlias

from koala.daemon.config import parse_config as parse_daemon
from koala.errors import ConfigError
from koala_agent.config import parse_config as parse_agent
from koala_agent.lrm.batch_system import find_system
from tests.fuzz.hostile_values import number, spoilt_text, text
from tests.fuzz.target import Target, require_readable
from tests.tidy.sources import ROOT

Case: TypeAlias = tuple[str, str]

DAEMON = (ROOT / "deploy" / "daemon.toml").read_text(encoding="utf-8")
AGENT = find_system("emulated").template.read_text(encoding="utf-8")
PIECES = ("=", "[", "]", "[[", '"', '"""', "'", "{", "}", ",", "\n", "#", "inf", "nan", "-1", "0",
          "true", "1e400", "[daemon]\n", "[agent]\n", "[parameters]\n", "2030-01-01", "\\u0000",
          "[" * 500, "9" * 5_000, "0x", "= {}\n", ".", "[a.b]\n")  # fmt: skip

PLACES = ("~nobody-of-that-name/x", "~", "a\0b", "x" * 5_000, "//", "a\nb", "127.0.0.1:99999",
          "[::1]:1", "h:0x1", "0:0", "h:" + "1" * 30, "::", "localhost:-1")  # fmt: skip
DATES = ("2030-01-01T00:00:00Z", "07:32:00", "1979-05-27T07:32:00-23:59", "0001-01-01", "-0.0",
         "+inf", "-nan", "0x7fffffffffffffffffff", "1_000", "''", "[[[]]]")  # fmt: skip


def a_case(random: Random) -> Case:
    kind, good = random.choice((("daemon", DAEMON), ("agent", AGENT)))
    joined = spoilt_lines(random, good)
    if random.randrange(2) == 0:
        joined = spoilt_text(random, joined, PIECES)
    return kind, joined


def spoilt_lines(random: Random, good: str) -> str:
    """A file of which some lines are missing, and some keys have other values, of any type."""
    lines = [line for line in good.split("\n") if random.randrange(6)]
    for index, line in enumerate(lines):
        name, sign, _ = line.partition("=")
        if sign and not name.lstrip().startswith("#") and random.randrange(8) == 0:
            lines[index] = f"{name}= {_value(random)}"
    return "\n".join(lines)


def _value(random: Random, depth: int = 2) -> str:
    match random.randrange(10):
        case 0 | 1 | 2:
            return str(number(random))
        case 3 | 4:
            escaped = "".join(f"\\u{ord(c):04x}" for c in text(random) if ord(c) < 0xD800)
            return f'"{escaped}"'
        case 5:
            return json.dumps(random.choice(PLACES))
        case 6:
            return random.choice(DATES)
        case 7:
            return random.choice(("true", "false", "1979-05-27", "{}", "[]"))
        case _:
            if depth == 0:
                return "1"
            inner = ", ".join(_value(random, depth - 1) for _ in range(random.randrange(3)))
            return f"[{inner}]" if random.randrange(2) else f"{{ a = {inner or 1} }}"


def check(case: Case) -> None:
    kind, content = case
    parse = parse_daemon if kind == "daemon" else parse_agent
    try:
        parse(content, source=f"{kind}.toml", folder=Path("/nowhere"))
    except ConfigError as error:
        require_readable(str(error))


TARGETS = (Target(name="config", make=a_case, check=check, share=0.5),)
