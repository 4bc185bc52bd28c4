"""Trees written as TOML are what Python reads of them."""

from __future__ import annotations

import math
import tomllib

from hypothesis import given
from hypothesis import strategies as st

from koala.runtime.toml_writer import toml_text

scalars = (
    st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
trees = st.recursive(
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), scalars, max_size=4),
    lambda inner: st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])),
        inner | scalars | st.lists(scalars, max_size=3),
        max_size=4,
    ),
    max_leaves=12,
)


@given(trees)
def test_what_is_written_as_toml_is_read_back(tree: dict[str, object]) -> None:
    assert tomllib.loads(toml_text(tree)) == tree


def test_infinite_numbers_are_written_as_toml_has_them() -> None:
    assert tomllib.loads(toml_text({"a": math.inf, "b": -math.inf})) == {
        "a": math.inf,
        "b": -math.inf,
    }
