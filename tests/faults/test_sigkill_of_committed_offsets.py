"""SIGKILL while groups commit: what was acked is there afterwards, and consumers go on from it."""

from __future__ import annotations

import os
import random
import threading
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer

from headrace.model.errors import ErrorCode
from tests.clients.raw_connection import Closed, RawConnection, batch_of
from tests.clients.raw_members import commit, fetch, find_coordinator
from tests.faults.load import create_topics
from tests.faults.node_process import PATIENCE_S, NodeProcess

if TYPE_CHECKING:
    from pathlib import Path

KILLS_LONG = int(os.environ.get("HEADRACE_KILLS", "25"))
SEED = int(os.environ.get("HEADRACE_SEED", "1"))
TOPICS = [f"read-{number}" for number in range(4)]  # each by a group of its own
MESSAGES = 100_000  # more than anybody commits here
MESSAGES_PER_BATCH = 10_000
VERSION = 8  # of OffsetCommit and OffsetFetch: the last that takes no topic ids


class Committer:
    """A group whose consumer commits one offset after the other, each higher than the last, until its node is gone."""

    def __init__(self, node: NodeProcess, topic: str) -> None:
        self.topic = topic
        self.group = f"group-of-{topic}"
        self.sent = -1
        self.acked = -1
        self.refused: set[int] = set()
        self._node = node
        self._thread = threading.Thread()

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait_end(self) -> None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the committer hangs"

    def _run(self) -> None:
        try:
            with RawConnection(self._node.bootstrap) as connection:
                while True:
                    self.sent += 1
                    (code,) = commit(connection, self.group, {(self.topic, 0): self.sent}, VERSION).values()
                    if code == ErrorCode.NONE:
                        self.acked = self.sent
                    elif code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                        self.refused.add(code)
        except (Closed, OSError):
            return

    def check(self) -> None:
        assert not self.refused
        with RawConnection(self._node.bootstrap) as connection:
            while True:
                error, found = fetch(connection, self.group, self.topic, [0], VERSION)
                if error != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    break
                time.sleep(0.01)
        assert error == ErrorCode.NONE
        committed = found[0][0]
        assert self.acked <= committed <= self.sent, f"{self.group} was told {self.acked} and now stands at {committed}"

    def check_that_a_consumer_goes_on(self) -> None:
        with RawConnection(self._node.bootstrap) as connection:
            _, found = fetch(connection, self.group, self.topic, [0], VERSION)
        settings = {"bootstrap.servers": self._node.bootstrap, "group.id": self.group, "enable.auto.commit": False}
        consumer = Consumer({**settings, "auto.offset.reset": "error"})
        consumer.subscribe([self.topic])
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None, message.error()
        assert message.offset() == found[0][0]
        consumer.close()


def write_messages(node: NodeProcess) -> None:
    create_topics(node.bootstrap, {topic: (1, {}) for topic in TOPICS})
    batch = batch_of(*[b"x"] * MESSAGES_PER_BATCH)
    with RawConnection(node.bootstrap) as connection:
        find_coordinator(connection)
        for topic in TOPICS:
            for _ in range(MESSAGES // MESSAGES_PER_BATCH):
                assert connection.produce(topic, batch).error_code == ErrorCode.NONE


def kill_while_groups_commit(tmp_path: Path, kills: int) -> None:
    chance = random.Random(SEED)
    configs = {"group.initial.rebalance.delay.ms": "0"}
    with NodeProcess(tmp_path / "data", tmp_path / "node.log", configs=configs) as node:
        write_messages(node.start())
        committers = [Committer(node, topic) for topic in TOPICS]
        for _ in range(kills):
            for committer in committers:
                committer.start()
            time.sleep(chance.uniform(0.05, 0.8))
            node.kill()
            for committer in committers:
                committer.wait_end()
            node.start()
            for committer in committers:
                committer.check()
        for committer in committers:
            committer.check_that_a_consumer_goes_on()
        acked = [committer.acked for committer in committers]
        print(f"\n{kills} kills, seed {SEED}: {sum(acked)} commits acked, none lost")
        assert min(acked) > kills
        assert node.stop() == 0


def test_no_acked_commit_is_lost_by_a_few_kills(tmp_path: Path) -> None:
    kill_while_groups_commit(tmp_path, kills=3)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_no_acked_commit_is_lost_by_many_kills(tmp_path: Path) -> None:
    kill_while_groups_commit(tmp_path, kills=KILLS_LONG)
