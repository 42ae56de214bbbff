"""What logs find to be done while somebody reads or writes them, and is no damage: it is done in a thread."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from headrace.storage.files.damage import DamagedLog

if TYPE_CHECKING:
    from headrace.broker.partitions.partition import Partition
    from headrace.model.names import LogId
    from headrace.runtime.tasks import TaskScope
    from headrace.runtime.threads import Threads
    from headrace.storage.log.repairs import Repair

log = logging.getLogger(__name__)

LANE: Final = "repairs"


class LogRepairs:
    def __init__(self, threads: Threads, tasks: TaskScope) -> None:
        self._threads = threads
        self._tasks = tasks
        self._under_way: set[tuple[LogId, str]] = set()
        """No more than there are segments that somebody reads."""

    def begin(self, partition: Partition, repair: Repair) -> None:
        """Beside the loop. Readers ask for the same again and again until it is done."""
        key = (partition.log_id, repair.what)
        if key not in self._under_way:
            self._under_way.add(key)
            self._tasks.start_if_open(self._run(partition, repair), repair.what)

    async def _run(self, partition: Partition, repair: Repair) -> None:
        try:
            await self._threads.run(repair.run, lane=LANE)
        except DamagedLog as damage:
            partition.met(damage)
        except OSError as error:  # the file is gone by now, or there is no descriptor: whoever needs it asks again
            log.debug("%s: cannot %s: %s", partition.name, repair.what, error)
        finally:
            self._under_way.discard((partition.log_id, repair.what))
            repair.finish()
        partition.look_again()
