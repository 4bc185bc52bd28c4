"""The example programs as modules, for what is better tested without processes.

They are not on the path of the tests, being programs of users; each is loaded from its file.
"""

import importlib.util
import sys
from types import ModuleType

from tests.examples.stage import EXAMPLES


def _load(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


ADVANCE = _load("advance", "sq/advance.py")
RENDEZVOUS = _load("rendezvous", "rendezvous.py")
POISSON = _load("poisson", "poisson/poisson.py")
ALLREDUCE = _load("allreduce", "allreduce/allreduce.py")
FEDAVG = _load("fedavg", "fedavg/fedavg.py")
DILOCO = _load("diloco", "diloco/diloco.py")
