"""Every fenced block of README.md and docs/ is run by a test, or says why none can."""

from __future__ import annotations

import ast

import pytest

from tests.docs.blocks import PAGES, ROOT, blocks_of
from tests.docs.plan import PLAN, NotRun, RunBy

RUNNERS = sorted(
    {test for fates in PLAN.values() for _, fate in fates if isinstance(fate, RunBy) for test in fate.tests}
)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_has_its_line_in_the_plan(page: str) -> None:
    found = [block.first_line for block in blocks_of(page)]
    planned = [start for start, _ in PLAN.get(page, [])]
    assert [line[: len(start)] for line, start in zip(found, planned, strict=False)] == planned
    assert len(found) == len(planned), f"not in tests/docs/plan.py: {found[len(planned) :]}"


def test_the_plan_speaks_of_pages_that_are_there() -> None:
    assert set(PLAN) <= set(PAGES)


def test_what_is_not_run_says_why() -> None:
    reasons = [fate.why for fates in PLAN.values() for _, fate in fates if isinstance(fate, NotRun)]
    assert all(reasons)
    named = {word.rstrip(";,") for why in reasons for word in why.split() if word.startswith("tests/")}
    assert not [path for path in named if not (ROOT / path).exists()]


@pytest.mark.parametrize("test", RUNNERS)
def test_who_runs_a_block_is_handed_it(test: str) -> None:
    """And the fixture sees to it that the test takes all that it is handed."""
    path, _, name = test.partition("::")
    tree = ast.parse((ROOT / path).read_text())
    (function,) = (
        node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
    )
    assert "told_blocks" in {argument.arg for argument in function.args.args}
