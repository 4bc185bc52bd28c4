"""`koala-agent start`, `stop` and `status`: an agent that runs in the background.

For machines without `systemctl --user`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from koala.common.runtime.service import detached
from koala_agent.claims.store import LOCK_FILE
from koala_agent.config import read_config, read_configs
from koala_agent.config_tables import Config
from koala_agent.state_folder import LOG_FILE, REGISTERED, STATUS_FILE

PROGRAM = ("-P", "-m", "koala_agent")


def start(paths: Sequence[Path]) -> int:
    """Start the agent of these configurations, and print what became of it."""
    configs = read_configs(paths)
    if (already := _running_already(paths, configs)) is not None:
        return already
    log = Path(configs[0].agent.state_dir) / LOG_FILE
    started = detached.start([*PROGRAM, *(str(path.resolve()) for path in paths)], log)
    if started.status is not None:
        sys.stderr.write(
            f"{started.last_line}\nThe agent ended with status {started.status}; log: {log}\n"
        )
        return started.status
    print(f"started (process {started.pid}), {started.report}")
    print(f"log: {log}")
    if not started.report.endswith(f": {REGISTERED}"):
        for path, config in zip(paths, configs, strict=True):
            state = status_of(config)
            if not state["registered"]:
                goes_on = "tries again by itself" if state["running"] else "is not served"
                print(
                    f"Site {config.agent.site} {goes_on}. `koala-agent doctor {path}` looks for the"
                    " cause."
                )
    return 0


def lock_of(config: Config) -> Path:
    """Return the file by which the agent of a configuration is known."""
    return Path(config.agent.state_dir) / LOCK_FILE


def _running_already(paths: Sequence[Path], configs: Sequence[Config]) -> int | None:
    """Print which of the sites have an agent; return the exit status, None when there is none."""
    stops: dict[str, str] = {}  # one for each process
    count = 0
    for path, config in zip(paths, configs, strict=True):
        running = detached.holder(lock_of(config))
        if running is not None:
            print(f"the agent of site {config.agent.site} runs already ({running.words})")
            stops.setdefault(running.words, running.at_its_host(f"koala-agent stop {path}"))
            count += 1
    if not count:
        return None
    words = " ".join(map(str, paths))
    purpose = "To apply changes" if count == len(paths) else "Nothing was started. To start all"
    print(f"{purpose}: {', '.join(stops.values())}, then koala-agent start {words}")
    return 0 if count == len(paths) else 1


def stop(path: Path) -> int:
    """End the agent of this configuration in order."""
    config = read_config(path)
    running = detached.holder(lock_of(config))
    if running is None:
        print(f"no agent of site {config.agent.site} runs here")
        return 0
    if running.process is None:
        sys.stderr.write(
            f"koala-agent: the agent of site {config.agent.site} runs on another machine"
            f" ({running.words}): {running.at_its_host(f'koala-agent stop {path}')}\n"
        )
        return 1
    if not running.stop():
        sys.stderr.write(
            f"koala-agent: {running.words} has not ended in {detached.STOP_S:g} s; its log:"
            f" {Path(config.agent.state_dir) / LOG_FILE}\n"
        )
        return 1
    print(f"the agent of site {config.agent.site} has ended ({running.words}); jobs run on")
    return 0


def status(path: Path, *, as_json: bool) -> int:
    """Print whether the agent runs, and whether its site is registered."""
    config = read_config(path)
    state = status_of(config)
    if as_json:
        print(json.dumps(state, indent=2))
    elif state["running"]:
        since = f", since {state['since']}" if state["since"] else ""
        print(f"site {state['site']}: running (process {state['pid']} at {state['host']}{since})")
        print(f"daemon {state['daemon']}: {state['status']}")
    else:
        print(f"site {state['site']}: not running; start it with: koala-agent start {path}")
    return 0 if state["running"] else 1


def status_of(config: Config) -> dict[str, object]:
    """Return whether the agent runs, and the state of its link or what it waits for before."""
    state_dir = Path(config.agent.state_dir)
    running = detached.holder(lock_of(config))
    text = ""
    if running is not None:
        text = f"starting; it waits for the first answers of its site ({config.system.title})"
        with suppress(OSError):
            text = (state_dir / STATUS_FILE).read_text(encoding="utf-8") or text
    return {
        "site": config.agent.site,
        "daemon": config.agent.daemon,
        "state_dir": str(state_dir),
        "running": running is not None,
        "pid": None if running is None else running.pid,
        "host": None if running is None else running.host,
        "since": (running.since or None) if running is not None else None,
        "registered": text == REGISTERED,
        "status": text,
    }
