"""A disk that reports errors: the node stops at once, promises nothing more, and recovers at its next start."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.faults.history import ACKS_LEADER, History, Partition, check
from tests.faults.load import HeadraceLoad, LibrdkafkaLoad, SendingClient, create_topics, wait_for_acks
from tests.faults.log_readers import read_as_client
from tests.faults.mounted_disks import MIB, LoopDisk, needs_mounts
from tests.faults.node_process import NodeProcess

if TYPE_CHECKING:
    from pathlib import Path

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")

TOPIC = {"events": (3, {"segment.bytes": str(MIB)})}


def failing(calls: str, when: str) -> tuple[str, ...]:
    """Run a node so that some of its system calls fail with EIO. `-D` keeps the node our own child."""
    inject = f"inject={calls}:error=EIO:when={when}"
    return ("strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e", inject)


def loads_on(node: NodeProcess, history: History, partitions: list[Partition]) -> list[SendingClient]:
    loads = [
        LibrdkafkaLoad("librdkafka", node.bootstrap, history, partitions),
        HeadraceLoad("headrace", node.bootstrap, history, partitions),
        LibrdkafkaLoad("leader-acks", node.bootstrap, history, partitions, promise=ACKS_LEADER),
    ]
    for load in loads:
        load.start()
    return loads


def finish(node: NodeProcess, history: History, partitions: list[Partition], loads: list[SendingClient]) -> None:
    """After a start on a good disk everybody gets through, and nothing acked is missing."""
    wait_for_acks(loads, 20)
    for load in loads:
        load.end()
        assert load.errors == []
    violations, figures = check(history, read_as_client(node.bootstrap, partitions))
    assert violations == []
    assert figures.acked_all > 40
    assert node.stop() == 0


@needs_strace
@pytest.mark.parametrize(
    ("calls", "when"),
    [
        pytest.param("fdatasync,syncfs", "25", id="one sync fails"),
        pytest.param("fdatasync,syncfs", "25+", id="every sync fails from some time on", marks=pytest.mark.long),
        pytest.param("pwritev,pwritev2", "40", id="one write fails"),
        pytest.param("pwritev,pwritev2", "40+", id="every write fails from some time on", marks=pytest.mark.long),
    ],
)
def test_an_error_of_the_disk_stops_the_node(tmp_path: Path, calls: str, when: str) -> None:
    history = History()
    with NodeProcess(tmp_path / "data", tmp_path / "node.log") as node:
        partitions = create_topics(node.start().bootstrap, TOPIC)
        assert node.stop() == 0
        node.prefix = failing(calls, when)
        node.start()
        loads = loads_on(node, history, partitions)
        assert node.wait_exit() == 1
        _check_last_words(node)

        node.prefix = ()
        node.start()
        finish(node, history, partitions, loads)


@needs_mounts
def test_a_disk_that_is_gone_stops_the_node_and_loses_nothing_acked(tmp_path: Path) -> None:
    """Here the bytes of a failed sync are really lost, as after the errors of a real disk."""
    history = History()
    with (
        LoopDisk(tmp_path, 256 * MIB) as disk,
        NodeProcess(disk.root / "data", tmp_path / "node.log") as node,
    ):
        partitions = create_topics(node.start().bootstrap, TOPIC)
        loads = loads_on(node, history, partitions)
        wait_for_acks(loads, 20)
        node.freeze()
        disk.cut_power()
        node.thaw()
        assert node.wait_exit() == 1
        _check_last_words(node)

        disk.unmount()
        disk.mount()
        node.start()
        finish(node, history, partitions, loads)


def _check_last_words(node: NodeProcess) -> None:
    """One line says why, in words and not in a traceback; and nothing claims that all is in order."""
    words = [line for line in node.log.splitlines() if line.startswith("headrace: stopped because")]
    assert len(words) == 1, node.log
    assert "disk" in words[0]
    assert "Traceback" not in node.log
    assert not (node.data_dir / "clean-shutdown").exists()
