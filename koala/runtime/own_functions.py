"""Functions that users name as `module:function`."""

from __future__ import annotations

import sys
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any


def load_function(name: str) -> Any:  # noqa: ANN401 - whatever is there
    """Load `module:function`; modules are also looked for in the present folder, last.

    Raises ValueError for a name of another form, and whatever the module raises.
    """
    module, _, function = name.partition(":")
    if not module or not function:
        message = "allowed is module:function"
        raise ValueError(message)
    here = str(Path.cwd())
    if here not in sys.path:  # it stays: a module may import its neighbours later
        sys.path.append(here)
    return attrgetter(function)(import_module(module))
