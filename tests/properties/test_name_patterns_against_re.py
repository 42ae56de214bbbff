"""The engine for topic patterns against Python's, on expressions that both can read."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.coordinators.patterns.name_patterns import NamePattern

ATOMS = st.sampled_from(["a", "b", r"\.", ".", "[ab]", "[^a]", "[a-c]", r"\d", r"\w", "^", "$", "-"])
REPEATS = st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?"])


def combined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(parts, min_size=1, max_size=3).map("".join),
        st.lists(parts, min_size=1, max_size=3).map(lambda choices: f"({'|'.join(choices)})"),
        st.tuples(parts, REPEATS).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    )


@settings(max_examples=400, deadline=None)
@given(
    regex=st.recursive(ATOMS, combined, max_leaves=8),
    names=st.lists(st.text("ab.-1", min_size=1, max_size=6), min_size=1, max_size=8),
)
def test_both_match_the_same_names(regex: str, names: list[str]) -> None:
    pattern, oracle = NamePattern(regex), re.compile(regex)
    assert [pattern.matches(name) for name in names] == [oracle.fullmatch(name) is not None for name in names]
