"""A worker that ends in the middle of a test costs this test: a pytest plugin around pytest-xdist's sharing of work.

pytest-xdist starts another worker for one that is lost, but its `loadgroup` may then wait for ever, or fall over:
- the test that ended the worker is given out again, and ends the next ones;
- a worker gets one more unit when it has done a test, but units that the lost one had done come back without a test;
- a worker begins a test when it knows the one after it, and a new worker may get a single one;
- a new worker is given work before it has said which tests it found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadGroupScheduling

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController


class SharingThatSurvivesWorkers(LoadGroupScheduling):
    def remove_node(self, node: WorkerController) -> str | None:
        units = self.assigned_work[node]
        ended_by = next((test for unit in units.values() for test, is_done in unit.items() if not is_done), None)
        for unit in units.values():
            if ended_by in unit:
                unit[ended_by] = True
        super().remove_node(node)
        return ended_by

    def _reschedule(self, node: WorkerController) -> None:
        if node not in self.registered_collections:
            return
        super()._reschedule(node)
        while self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            self._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadGroupScheduling | None:
    return SharingThatSurvivesWorkers(config, log) if config.getvalue("dist") == "loadgroup" else None
