"""A coordinator that finds very many commits in its log answers for each. How soon, and how awake the node stays
meanwhile, is printed and not judged: on a busy machine it says more of the machine.
"""

from __future__ import annotations

import time
import urllib.request
from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import ErrorCode
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.clients.raw_connection import RawConnection
from tests.clients.raw_members import fetch, find_coordinator
from tests.faults.load import create_topics
from tests.faults.node_process import NodeProcess

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = "read-by-many"
PARTITIONS = 500
VERSION = 8
LAG = "headrace_loop_lag_seconds_max"


def commit_for_all_partitions(connection: RawConnection, group: str, offset: int) -> None:
    parts = [OffsetCommitRequestPartition(number, offset, committed_metadata="") for number in range(PARTITIONS)]
    request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(TOPIC, partitions=parts)])
    answer = connection.ask(request, VERSION)
    assert {part.error_code for part in answer.topics[0].partitions} == {ErrorCode.NONE}


def wait_for_answer(connection: RawConnection, group: str) -> int:
    """The group's offset in the last partition, once its coordinator is loaded."""
    while True:
        error, found = fetch(connection, group, TOPIC, [PARTITIONS - 1], VERSION)
        if error == ErrorCode.NONE:
            return found[PARTITIONS - 1][0]
        assert error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        time.sleep(0.02)


def loop_lag_s_max(node: NodeProcess) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{node.http_port}/metrics") as answer:
        (line,) = (line for line in answer.read().decode().splitlines() if line.startswith(LAG))
    return float(line.split()[1])


def load(tmp_path: Path, groups: int, ending: str) -> None:
    names = [f"group-{number}" for number in range(groups)]
    with NodeProcess(tmp_path / "data", tmp_path / "node.log") as node:
        create_topics(node.start().bootstrap, {TOPIC: (PARTITIONS, {})})
        began_s = time.monotonic()
        with RawConnection(node.bootstrap) as connection:
            find_coordinator(connection)
            for number, group in enumerate(names):
                commit_for_all_partitions(connection, group, number)
        written_s = time.monotonic() - began_s
        lag_writing_s = loop_lag_s_max(node)
        getattr(node, ending)()
        began_s = time.monotonic()
        node.start()
        ready_s = time.monotonic() - began_s
        with RawConnection(node.bootstrap) as connection:
            for number, group in enumerate(names):
                assert wait_for_answer(connection, group) == number
        answered_s = time.monotonic() - began_s
        lag_s = loop_lag_s_max(node)
        print(
            f"\n{groups * PARTITIONS} commits written in {written_s:.1f} s (loop at most {lag_writing_s * 1000:.0f} ms "
            f"late); after {ending}: ready in {ready_s:.2f} s, all groups answer in {answered_s:.2f} s, "
            f"loop at most {lag_s * 1000:.0f} ms late"
        )
        assert node.stop() == 0


def test_loading_some_commits(tmp_path: Path) -> None:
    load(tmp_path, groups=20, ending="stop")


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_loading_a_million_commits(tmp_path: Path, ending: str) -> None:
    load(tmp_path, groups=1_000_000 // PARTITIONS, ending=ending)
