"""The installed program as a wheel, to be copied to a host."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import zipfile
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from koala.errors import ConfigError

NAME = "koala-scheduler"
LEFT_OUT = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json")
BUILD_S = 300.0
HELP = "give the path of a wheel with --wheel"


def own_wheel(folder: Path) -> Path:
    """Make a wheel of this installation in a folder. Raises ConfigError."""
    try:
        installed = distribution(NAME)
    except PackageNotFoundError as error:
        raise ConfigError(f"{NAME} is not an installed package here: {HELP}") from error
    source = json.loads(installed.read_text("direct_url.json") or "{}")
    if source.get("dir_info", {}).get("editable"):
        return _built(Path(unquote(urlsplit(source["url"]).path)), folder)
    return _packed(installed, folder)


def _built(source: Path, folder: Path) -> Path:
    argv = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(source)]
    try:
        subprocess.run(argv, check=True, capture_output=True, text=True, timeout=BUILD_S)
    except subprocess.CalledProcessError as error:
        detail = (error.stderr or "").strip().rpartition("\n")[2]
        raise ConfigError(f"no wheel of {source} can be built ({detail}): {HELP}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"no wheel of {source} can be built ({error}): {HELP}") from error
    return next(iter(sorted(folder.glob("*.whl"))))


def _packed(installed: Distribution, folder: Path) -> Path:
    """Pack the files of an installed wheel again; the installer makes its scripts again."""
    target = folder / f"koala_scheduler-{installed.version}-py3-none-any.whl"
    lines = []
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file in installed.files or ():
            is_ours = file.parts[0] != ".." and file.suffix != ".pyc" and file.name not in LEFT_OUT
            if not is_ours:
                continue
            content = Path(str(file.locate())).read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            lines.append(f"{file.as_posix()},sha256={digest.decode()},{len(content)}")
            wheel.writestr(file.as_posix(), content)
        record = f"koala_scheduler-{installed.version}.dist-info/RECORD"
        wheel.writestr(record, "\n".join([*lines, f"{record},,", ""]))
    if not lines:
        raise ConfigError(f"the files of {NAME} are not known here: {HELP}")
    return target
