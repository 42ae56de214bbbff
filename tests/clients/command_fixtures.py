"""Fixtures that call commands against the node that tests share: a pytest plugin to name in `pytest_plugins`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clients.commands import Ran, call

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.clients.nodes import NodeProcess


@pytest.fixture
def headrace(node: NodeProcess) -> Callable[..., Ran]:
    """Call a command that must succeed."""

    def succeed(*arguments: str, stdin: str | bytes = "") -> Ran:
        ran = call(node.bootstrap_servers, *arguments, stdin=stdin)
        assert ran.code == 0, ran.talk
        return ran

    return succeed


@pytest.fixture
def refused(node: NodeProcess) -> Callable[..., Ran]:
    """Call a command that must fail."""

    def fail(*arguments: str, stdin: str | bytes = "") -> Ran:
        ran = call(node.bootstrap_servers, *arguments, stdin=stdin)
        assert ran.code != 0
        return ran

    return fail
