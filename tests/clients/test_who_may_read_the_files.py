"""What a node stores is for the account that it runs under, and nobody else on the machine."""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from headrace.model.errors import ErrorCode
from headrace.runtime.disk import SystemDisk
from headrace.storage.compaction.worker_main import LOCK
from tests.clients.nodes import PATIENCE_S, new_name
from tests.clients.raw_connection import RawConnection
from tests.clients.raw_transactions import RawProducer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.clients.nodes import NodeProcess

pytest_plugins = ["tests.clients.node_fixtures"]

EAGER = {"log.cleaner.backoff.ms": "100"}
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0"}


@pytest.fixture
def no_umask() -> Iterator[None]:
    """As careless as an account can be."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(root: Path) -> dict[str, str]:
    """Of everything below, and of the directory itself."""
    return {
        str(path.relative_to(root)): stat.filemode(path.stat().st_mode) for path in (root, *sorted(root.rglob("*")))
    }


def open_to_others(root: Path) -> dict[str, str]:
    return {name: mode for name, mode in modes(root).items() if mode not in {"drwx------", "-rw-------"}}


@pytest.mark.usefixtures("no_umask")
def test_everything_that_a_node_makes_is_its_own(start_node: Callable[[dict[str, str]], NodeProcess]) -> None:
    node = start_node(EAGER)
    topic = node.create_topic(new_name(), partitions=2, configs=COMPACTED)
    with RawConnection(node.bootstrap_servers) as connection:
        transaction = RawProducer(connection, new_name("tx")).init()
        assert transaction.produce(node.create_topic(new_name()), b"value") == ErrorCode.NONE
        transaction.end_well(commit=True)
    producer = Producer({"bootstrap.servers": node.bootstrap_servers})
    deadline_s = time.monotonic() + PATIENCE_S
    while not (node.data_dir / LOCK).exists():  # until a log has been compacted, in a process of its own
        assert time.monotonic() < deadline_s
        producer.produce(topic, b"value", b"key")
        assert producer.flush(PATIENCE_S) == 0
    node.stop()
    assert len(modes(node.data_dir)) > 40
    assert open_to_others(node.data_dir) == {}
    node.start().stop()
    assert open_to_others(node.data_dir) == {}


@pytest.mark.usefixtures("no_umask")
def test_a_directory_that_the_operator_made_stays_as_it_is(tmp_path: Path) -> None:
    place = tmp_path / "srv" / "data"
    place.mkdir(parents=True)
    place.chmod(0o750)
    disk = SystemDisk(place)
    disk.make_directory("topics/one/0")
    disk.open("topics/one/0/log", create=True).close()
    disk.write_file("one", b"1")
    disk.replace_file("two", b"2")
    disk.close()
    found = modes(place)
    assert found.pop(".") == "drwxr-x---"
    assert set(found.values()) == {"drwx------", "-rw-------"}


def test_what_an_account_forbids_itself_stays_forbidden(tmp_path: Path) -> None:
    before = os.umask(0o277)
    try:
        disk = SystemDisk(tmp_path)
        disk.write_file("file", b"")
    finally:
        os.umask(before)
    disk.close()
    assert modes(tmp_path)["file"] == "-r--------"
