from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from headrace.runtime.disk import SystemDisk
from headrace.simulation.environment.device import Device
from headrace.simulation.environment.disk import SimulatedDisk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SystemDisk]:
    opened = SystemDisk(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def device() -> Device:
    return Device(Random(1))


@pytest.fixture
def simulated(device: Device) -> SimulatedDisk:
    return SimulatedDisk(device)
