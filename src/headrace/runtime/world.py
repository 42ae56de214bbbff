"""Everything a node may touch outside itself, in one bundle that the simulator can replace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.runtime.clock import Clock
    from headrace.runtime.disk import Disk
    from headrace.runtime.entropy import Entropy
    from headrace.runtime.network import Network
    from headrace.runtime.threads import Threads


@dataclass(frozen=True, slots=True)
class World:
    clock: Clock
    disk: Disk
    entropy: Entropy
    network: Network
    threads: Threads
