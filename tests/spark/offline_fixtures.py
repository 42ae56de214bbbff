"""A pytest plugin to name in `pytest_plugins`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.offline_commands import Commands

if TYPE_CHECKING:
    from headrace.testing import Broker


@pytest.fixture
def commands(broker: Broker, capsysbinary: pytest.CaptureFixture[bytes]) -> Commands:
    return Commands(broker, capsysbinary)
