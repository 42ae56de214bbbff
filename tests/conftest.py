"""What holds for all tests."""

from __future__ import annotations

import os
import signal

import pytest

pytest_plugins = ["tests.time_limits", "tests.lost_workers", "tests.secured_run"]

# Tests start hundreds of nodes, commands and Spark's workers. Each would compile all of the source anew, which takes a
# third of its start, where the environment forbids to keep what was compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A script's background jobs ignore Ctrl-C, and so does all that they start. Tests send it to their commands: these get
# back what it does otherwise, as a signal that is handled here is not handed on.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
