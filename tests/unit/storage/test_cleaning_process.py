"""The process that cleans: one for as many logs as are due, and none while there is nothing to do."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.runtime.worker_process import WorkerProcessEnded
from headrace.storage.compaction.job import Damaged, Finished
from headrace.storage.compaction.plan import cleaning_job, dirtiness_of
from headrace.storage.compaction.workers import InProcess
from headrace.storage.settings import CompactionSettings
from tests.unit.storage.compacted_logs import flush
from tests.unit.storage.small_logs import FIRST_MS, append, batch_at, new_log

if TYPE_CHECKING:
    from headrace.runtime.disk import SystemDisk
    from headrace.storage.compaction.job import CleaningJob, Event

FAST = 1e9


def job_on(disk: SystemDisk) -> CleaningJob:
    log = new_log(disk)
    append(log, batch_at(0, count=3))
    log.roll()
    flush(log)
    settings = CompactionSettings(min_dirty_ratio=0)
    found = dirtiness_of(log, settings, log.flushed_offset, FIRST_MS)
    return cleaning_job(log, settings, found, now_ms=FIRST_MS, key_map_bytes=1 << 20)


def children() -> set[int]:
    return {
        int(child) for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()
    }


async def last_event(worker: InProcess, job: CleaningJob) -> Event:
    events = [event async for event in worker.run(job, FAST)]
    return events[-1]


def test_one_process_cleans_log_after_log_and_ends_when_there_is_nothing_to_do(disk: SystemDisk) -> None:
    job = job_on(disk)

    async def main() -> None:
        before = children()
        worker = InProcess(disk.location)
        assert isinstance(await last_event(worker, job), Finished)
        started = children() - before
        assert len(started) == 1
        Path(disk.location, job.directory, "00000000000000000000.log").write_bytes(bytes(job.sources[0].size))
        assert isinstance(await last_event(worker, job), Damaged), "trouble with one log is no end of it"
        assert children() - before == started
        await worker.rest()
        assert not children() - before

    asyncio.run(main())


def test_another_process_goes_on_after_one_that_died(disk: SystemDisk) -> None:
    job = job_on(disk)

    async def main() -> None:
        before = children()
        worker = InProcess(disk.location)
        await last_event(worker, job)
        (first,) = children() - before
        os.kill(first, signal.SIGKILL)
        with pytest.raises(WorkerProcessEnded, match="ended by signal 9"):
            await last_event(worker, job)
        assert isinstance(await last_event(worker, job), Finished)
        await worker.rest()

    asyncio.run(main())


def test_a_process_that_nobody_listens_to_any_more_is_ended(disk: SystemDisk) -> None:
    job = job_on(disk)

    async def main() -> None:
        before = children()
        worker = InProcess(disk.location)
        events = worker.run(job, FAST)
        await anext(events)
        await events.aclose()
        assert not children() - before

    asyncio.run(main())
