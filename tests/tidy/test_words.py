"""Every module says what it is for, in the words of the glossary, and holds no bad habits."""

import ast
import re
from collections import Counter
from collections.abc import Collection

import pytest

from tests.tidy.kinds import modules_of_kinds
from tests.tidy.sources import Module, module_of, other_modules, shipped_modules
from tests.tidy.words import (
    bad_habits,
    bad_tests,
    bad_words,
    clock_readers,
    names_twice,
    old_errors,
    retired_names,
    retired_verbs,
    riddles,
    vague_variables,
)

MODULES_MAX = 20
"""More modules in one folder are no map of themselves."""
MAPPED_MIN = 8
"""So many modules and folders in one folder need a map: its docstring, which names each."""
MAP_LINE = re.compile(r" *((?:[a-z_]+(?:\.py|/)?, )*[a-z_]+(?:\.py|/)?)  +\S")
"""A line of a map: one or several names, two spaces or more, and what they are for."""
BEGINS_WITH_TEXT = re.compile(r'(?:#.*\n|\s)*r?"""[^"]')
"""The first characters of most modules with a docstring; others are parsed."""


def all_modules() -> tuple[Module, ...]:
    return (*shipped_modules(), *other_modules())


def test_every_module_has_a_docstring() -> None:
    bare = [module for module in all_modules() if not BEGINS_WITH_TEXT.match(module.text)]
    assert [module.name for module in bare if not ast.get_docstring(module.tree)] == []


def test_docstrings_begin_with_what_a_thing_does() -> None:
    assert [found for module in all_modules() for found in riddles(module)] == []


def test_no_name_is_retired_and_none_stands_twice_in_a_layer() -> None:
    assert [found for module in all_modules() for found in retired_names(module)] == []
    assert [found for module in shipped_modules() for found in retired_verbs(module)] == []
    assert list(names_twice(shipped_modules())) == []


def test_errors_say_what_is_wrong_and_what_was_expected() -> None:
    assert [found for module in shipped_modules() for found in old_errors(module)] == []
    text = 'raise ValueError(f"{name} is no number: allowed is one")\n'
    assert len(list(old_errors(module_of(text + '"""There is no number."""')))) == 1


def test_variables_have_their_noun_where_all_have() -> None:
    assert [found for module in shipped_modules() for found in vague_variables(module)] == []
    room = "koala.policies.example"
    assert len(list(vague_variables(module_of("x = [one for one in a]\n", name=room)))) == 1


def test_a_folder_has_no_more_modules_than_its_names_can_explain() -> None:
    folders = Counter(module.path.parent for module in all_modules())
    assert {str(path) for path, count in folders.items() if count > MODULES_MAX} == set()


def map_errors(package: str, text: str, inside: Collection[str]) -> list[str]:
    """List the names that the map of a folder lacks, and those that it has for nothing."""
    words = set(re.findall(r"\w+", text))
    lacking = [] if len(inside) < MAPPED_MIN else [one for one in inside if one not in words]
    found = (MAP_LINE.match(line) for line in text.splitlines())
    named = [
        name.removesuffix(".py").rstrip("/") for one in found if one for name in one[1].split(", ")
    ]
    gone = [one for one in named if one not in inside]
    return [f"{package}: no {one}" for one in gone] + [f"{package} lacks {one}" for one in lacking]


def test_the_map_of_a_folder_names_all_that_is_there() -> None:
    """Its reader looks for a module by what it is for; a map with a gap hides one. What an entry
    point names for one kind of batch system is in the table of entry points already."""
    inside: dict[str, list[str]] = {}
    for module in shipped_modules():
        parent, _, name = module.name.rpartition(".")
        if name != "__main__" and module.name not in modules_of_kinds():
            inside.setdefault(parent, []).append(name)
    errors = [
        error
        for module in shipped_modules()
        if module.is_package
        for error in map_errors(
            module.name, ast.get_docstring(module.tree) or "", inside.get(module.name, [])
        )
    ]
    assert errors == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("A map.\n\na, b    two\nc/  three\nd.py   four; `e`, `f` and `g`", "koala.x lacks h"),
        ("A map.\n\nabcd   of a b c d e f g h", "koala.x: no abcd"),
    ],
)
def test_a_gap_in_a_map_and_a_name_for_nothing_are_found(text: str, error: str) -> None:
    assert map_errors("koala.x", text, list("abcdefgh")) == [error]


def test_one_module_reads_the_clocks_of_the_machine() -> None:
    assert [found for module in shipped_modules() for found in clock_readers(module)] == []
    for text in ("time.time()", "f(clock=time.monotonic)", "datetime.now(UTC)"):
        assert len(list(clock_readers(module_of(text)))) == 1


def test_a_retired_name_and_a_name_that_stands_twice_are_found() -> None:
    assert len(list(retired_names(module_of("class Roster: pass")))) == 1
    assert len(list(retired_verbs(module_of("def hear(_told): pass")))) == 2
    first = module_of("class A: pass", name="koala.daemon.one")
    second = module_of("class A: pass", name="koala.daemon.two")
    assert len(list(names_twice([first, second]))) == 1


def test_nothing_is_left_open_and_no_tool_is_silenced_wholesale() -> None:
    assert [found for module in all_modules() for found in bad_words(module)] == []


def test_there_are_no_stray_tasks_stubs_or_blind_excepts() -> None:
    assert [found for module in all_modules() for found in bad_habits(module)] == []


def test_tests_neither_sleep_nor_skip_nor_mock() -> None:
    tests = [module for module in other_modules() if module.name.startswith("tests.")]
    assert [found for module in tests for found in bad_tests(module)] == []


@pytest.mark.parametrize(
    "text",
    [
        "asyncio.create_task(f())",
        "def f(): raise NotImplementedError",
        "async def f():\n    'Does it.'\n    raise NotImplementedError('later')",
        "try:\n    f()\nexcept:\n    pass",
    ],
)
def test_a_bad_habit_is_found(text: str) -> None:
    assert len(list(bad_habits(module_of(text)))) == 1
