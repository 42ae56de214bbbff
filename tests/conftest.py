"""What holds for all tests."""

from __future__ import annotations

import os

import pytest

# Tests start hundreds of nodes, commands and Spark's workers. Each would compile all of the source anew, which takes a
# third of its start, where the environment forbids to keep what was compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse to run with groups that are scattered over processes: their tests share what exists once.

    pytest-xdist writes a test's group behind its name, and where pytest does not let it, it says nothing.
    """
    if not config.getoption("loadgroup", default=False):
        return
    for item in items:
        if item.get_closest_marker("xdist_group") and "@" not in item.nodeid.rpartition("]")[2]:
            raise pytest.UsageError(f"{item.nodeid} has lost its group: this pytest and this pytest-xdist do not fit")
