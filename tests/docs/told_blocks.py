"""Hands each test the blocks that `plan.py` says it runs: a pytest plugin to name in `pytest_plugins`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.docs.blocks import PAGES, Block, blocks_of
from tests.docs.plan import PLAN, RunBy

if TYPE_CHECKING:
    from collections.abc import Iterator


class ToldBlocks:
    """The blocks of one test, in the order of their pages. Each is to be taken; so none is only said to be run."""

    def __init__(self, blocks: list[Block]) -> None:
        self.left = blocks

    def take(self, start: str) -> Block:
        """The block that begins so."""
        found = next(block for block in self.left if block.first_line.startswith(start))
        self.left.remove(found)
        return found

    def take_all(self) -> Iterator[Block]:
        while self.left:
            yield self.left.pop(0)


def blocks_for(test: str) -> list[Block]:
    return [
        block
        for page in PAGES
        for block, (_, fate) in zip(blocks_of(page), PLAN.get(page, []), strict=True)
        if isinstance(fate, RunBy) and test in fate.tests
    ]


@pytest.fixture
def told_blocks(request: pytest.FixtureRequest) -> Iterator[ToldBlocks]:
    function = request.node.originalname
    test = f"{request.path.relative_to(request.config.rootpath)}::{function}"
    told = ToldBlocks(blocks_for(test))
    assert told.left, f"tests/docs/plan.py gives nothing to {test}"
    yield told
    assert not told.left, f"{test} has not run {', '.join(map(str, told.left))}"
