"""The core decides alone: same events, same actions, in any process, under any hash seed."""

import ast
from collections.abc import Iterator

import pytest

from tests.tidy.purity import impurities, is_pure
from tests.tidy.sources import Module, dotted, is_within, module_of, nodes, shipped_modules

JOB_PHASE_OWNER = "koala.core.state"
CLAIM_PHASE_OWNERS = (
    "koala.core.pipeline.claiming",
    "koala.core.pipeline.start_barrier",
    "koala.core.pipeline.ending",
    "koala.core.pipeline.requeueing",
)


def test_pure_packages_neither_reach_the_world_nor_depend_on_set_order() -> None:
    assert [
        found for module in shipped_modules() if is_pure(module) for found in impurities(module)
    ] == []


def test_a_phase_is_assigned_where_the_transition_table_is_checked_alone() -> None:
    assert [found for module in shipped_modules() for found in phase_assignments(module)] == []


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "import logging",
        "from asyncio import Queue",
        "import msgspec",
        "from koala.daemon import journal",
        "import random\nx = random.choice([1])",
        "from random import shuffle",
        "import random\nx = random.Random()",
        "def f(): return open('x')",
        "def f(x): return hash(x)",
        "async def f(): pass",
        "def f():\n    global x\n    x = 1",
        "for x in {1, 2}: pass",
        "def f(a):\n    b = set(a)\n    return [x for x in b]",
        "def f(a: frozenset[int]):\n    return tuple(a)",
        "def f(a: set[str]):\n    return ','.join(a)",
        "def f(a: set[str], b):\n    for x in a - b: pass",
        "def f(a: set[str]):\n    return a.pop()",
        "class A:\n    def __init__(self):\n        self.b: set[int] = set()\n"
        "    def f(self):\n        return list(self.b)",
        "class A:\n    b: frozenset[int]\n    def f(self):\n        return {x: 1 for x in self.b}",
    ],
)
def test_an_impurity_is_found(text: str) -> None:
    assert len(list(impurities(module_of(text, name="koala.core.example")))) == 1


def test_views_format_days_but_read_no_clock() -> None:
    pure = "from datetime import date\nx = date.fromordinal(1)"
    impure = "from datetime import date\nx = date.today()"
    assert list(impurities(module_of(pure, name="koala.views.example"))) == []
    assert len(list(impurities(module_of(pure, name="koala.core.example")))) == 1
    assert len(list(impurities(module_of(impure, name="koala.views.example")))) == 1


@pytest.mark.parametrize(
    "text",
    ["job.phase = 1", "job.phase: int = 1", "a.phase, b = 1, 2", "setattr(job, 'phase', 1)",
     "y = replace(job, phase=2)"],
)  # fmt: skip
def test_an_assigned_phase_is_found_outside_its_owner(text: str) -> None:
    assert len(list(phase_assignments(module_of(text, name="koala.daemon.loop.event_loop")))) == 1
    assert len(list(phase_assignments(module_of(text, name="koala.core.pipeline.claiming")))) == 1
    assert list(phase_assignments(module_of(text, name="koala.core.state"))) == []


def phase_assignments(module: Module) -> Iterator[str]:
    """Places that give a job another phase, in whatever way, outside koala/core/state.py; those of
    claims belong to the steps of the pipeline.
    """
    if module.name == JOB_PHASE_OWNER or not is_within(module.name, "koala"):
        return
    if "phase" not in module.text:
        return
    for node in nodes(module):
        match node:
            case ast.Attribute(value=ast.Name(id="claim"), attr="phase", ctx=ast.Store()) if (
                module.name in CLAIM_PHASE_OWNERS
            ):
                pass
            case ast.Attribute(attr="phase", ctx=ast.Store()):
                yield f"{module.at(node)}: assigns {dotted(node)}"
            case ast.Call(func=func, args=[_, ast.Constant(value="phase"), *_]) if dotted(func) in (
                "setattr",
                "object.__setattr__",
            ):
                yield f"{module.at(node)}: sets a phase"
            case ast.Call(func=func, keywords=keywords) if dotted(func).endswith("replace"):
                if any(keyword.arg == "phase" for keyword in keywords):
                    yield f"{module.at(node)}: replaces a phase"
            case _:
                pass
