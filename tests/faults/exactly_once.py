"""Workers that copy a topic exactly once while things are killed around them, and the judgement at the end."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple, Self

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from tests.faults.copying_worker import GROUP, INPUT, OUTPUT, SESSION_MS
from tests.faults.history import History
from tests.faults.load import FOREVER_MS, QUICK_RECONNECT, Client, create_topics
from tests.faults.log_readers import consumer_of
from tests.faults.node_process import PATIENCE_S, SOURCE, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.node_process import NodeProcess

ROOT = SOURCE.parent
PARTITIONS = 4
WORKERS = 3
FEED_PAUSE_S = 0.02
FEED_BURST_MAX = 8
NODE_CONFIGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": str(SESSION_MS),
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"

Records = dict[int, dict[int, bytes]]
"""Values by partition and offset."""


class Feeder(Client):
    """Fills the input with numbered records. Idempotent, so that the input itself has none twice."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        super().__init__("feeder", History(), seed)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": FOREVER_MS,
                **QUICK_RECONNECT,
            }
        )
        self.count = 0

    def work(self) -> None:
        while not self.stopping.is_set():
            for _ in range(self.chance.randint(1, FEED_BURST_MAX)):
                partition = self.chance.randrange(PARTITIONS)
                self._producer.produce(INPUT, b"%d" % self.count, partition=partition)
                self.count += 1
            self._producer.poll(0)
            self.stopping.wait(FEED_PAUSE_S)
        assert self._producer.flush(FOREVER_MS / 1000) == 0


class Reader(Client):
    """Reads the output all the time, and forgets nothing."""

    def __init__(self, bootstrap: str, isolation: str) -> None:
        super().__init__(f"reader {isolation}", History(), 0)
        self.seen: Records = {partition: {} for partition in range(PARTITIONS)}
        self._consumer = consumer_of(bootstrap, **{"isolation.level": isolation, "auto.offset.reset": "earliest"})

    def work(self) -> None:
        self._consumer.assign([TopicPartition(OUTPUT, partition, 0) for partition in range(PARTITIONS)])
        while not self.stopping.is_set():
            for message in self._consumer.consume(500, timeout=0.2):
                if message.error() is None:
                    known = self.seen[message.partition()].setdefault(message.offset(), message.value())
                    assert known == message.value(), f"offset {message.offset()} was {known!r}, is {message.value()!r}"
        self._consumer.close()


class WorkerProcess:
    """One worker at a time under this name; each life has a number of its own."""

    def __init__(self, campaign: CopyingCampaign, index: int) -> None:
        self._campaign = campaign
        self._index = index
        self._lives = 0
        self._child: subprocess.Popen[bytes] | None = None
        self.transactional_id = f"copier-{index}"

    def start(self) -> None:
        campaign = self._campaign
        self._lives += 1
        own = [partition for partition in range(PARTITIONS) if partition % WORKERS == self._index]
        with campaign.workers_log.open("ab") as log:
            self._child = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.faults.copying_worker", campaign.client, campaign.node.bootstrap),
                    *(self.transactional_id, str(self._lives), str(campaign.journal), json.dumps(own)),
                ],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(SOURCE)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()

    def start_again(self, *, under_a_new_id: bool) -> None:
        if under_a_new_id:
            self.transactional_id = f"copier-{self._index}-{self._lives}"
        self.start()

    def revive(self) -> None:
        """Start it again if it ended by itself, as one does that met an error that it cannot handle."""
        if self._child is not None and self._child.poll() is not None:
            self.start()

    def freeze(self) -> None:
        assert self._child is not None
        self._child.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._child is not None
        self._child.send_signal(signal.SIGCONT)


class Figures(NamedTuple):
    records: int
    committed: int
    """Transactions, as the workers count them; some more were committed by workers that were killed meanwhile."""
    doomed: int
    aborted: int
    ended_workers: int
    aborted_copies: int
    """Records that only readers of uncommitted records have seen."""

    def __str__(self) -> str:
        return (
            f"{self.records} records copied, {self.committed} transactions committed, {self.doomed} given up on "
            f"purpose, {self.aborted} aborted, {self.ended_workers} workers ended by themselves, {self.aborted_copies} "
            "aborted copies"
        )


class CopyingCampaign:
    """Use it with `with`: no process is left behind."""

    def __init__(self, node: NodeProcess, directory: Path, client: str, seed: int) -> None:
        self.node = node
        self.client = client
        self.chance = random.Random(seed)
        self.journal = directory / "journal"
        self.workers_log = directory / "workers.log"
        create_topics(node.bootstrap, {INPUT: (PARTITIONS, {}), OUTPUT: (PARTITIONS, {})})
        self.feeder = Feeder(node.bootstrap, seed)
        self.committed_reader = Reader(node.bootstrap, COMMITTED)
        self.uncommitted_reader = Reader(node.bootstrap, UNCOMMITTED)
        self.workers = [WorkerProcess(self, index) for index in range(WORKERS)]
        self._group = consumer_of(node.bootstrap, **{"group.id": GROUP})
        """Asks for the group's places, and is no member of it."""
        self._running = ExitStack()

    def __enter__(self) -> Self:
        self.journal.touch()
        for client in (self.feeder, self.committed_reader, self.uncommitted_reader):
            client.start()
        for worker in self.workers:
            self._running.callback(worker.kill)
            worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        for client in (self.feeder, self.committed_reader, self.uncommitted_reader):
            client.stopping.set()
        self._group.close()
        self._running.close()

    # ---- while it runs

    def progress(self) -> None:
        """Wait until some worker has committed something more."""
        goal = self._outcomes()["committed"] + 1

        def is_reached() -> bool:
            self._revive()
            return self._outcomes()["committed"] >= goal

        wait_until(is_reached, "a worker has committed something", self._explain)

    def kill_a_worker(self) -> None:
        """Its successor comes under the same id and fences it, or under another: then the time limit must do it."""
        worker = self.chance.choice(self.workers)
        worker.kill()
        time.sleep(self.chance.uniform(0.0, 0.5))
        # A client with partitions of its own relies on its id: only under the same one its past is decided.
        worker.start_again(under_a_new_id=self.client == "confluent-kafka" and self.chance.random() < 0.4)

    def suspend_a_worker(self) -> None:
        """Long enough that its group goes on without it. Then it wakes up and goes on where it was."""
        worker = self.chance.choice(self.workers)
        worker.freeze()
        time.sleep(1.5 * SESSION_MS / 1000)
        worker.thaw()

    def _revive(self) -> None:
        for worker in self.workers:
            worker.revive()

    def _outcomes(self) -> Counter[str]:
        return Counter(json.loads(line)[0] for line in self.journal.read_text().splitlines())

    def _explain(self) -> str:
        journal = self.journal.read_text().splitlines()[-10:]
        places = [f"{place}" for place in self._committed_places()] if self.node.is_running else []
        return "\n".join([*journal, *places, self.node.log[-3_000:], self.workers_log.read_text()[-3_000:]])

    # ---- the end

    def finish(self) -> Figures:
        """Let the workers do what is left, then compare."""
        self.feeder.end()
        written = _read_all(self.node.bootstrap, INPUT)
        ends = {partition: max(records, default=-1) + 1 for partition, records in written.items()}
        wait_until(lambda: self._is_all_copied(ends), "the group is at the end of its input", self._explain)
        for worker in self.workers:
            worker.kill()
        copied = _read_all(self.node.bootstrap, OUTPUT, until_stable=True)
        self._wait_for_readers(copied)
        self.committed_reader.end()
        self.uncommitted_reader.end()
        return self._judge(written, copied)

    def _is_all_copied(self, ends: dict[int, int]) -> bool:
        self._revive()
        places = {place.partition: place.offset for place in self._committed_places()}
        assert all(places.get(partition, 0) <= end for partition, end in ends.items()), (places, ends)
        return all(places.get(partition) == end or not end for partition, end in ends.items())

    def _committed_places(self) -> list[TopicPartition]:
        try:
            asked = [TopicPartition(INPUT, partition) for partition in range(PARTITIONS)]
            return list(self._group.committed(asked, timeout=5.0))
        except KafkaException:  # an open transaction holds some of them back
            return []

    def _wait_for_readers(self, copied: Records) -> None:
        for reader in (self.committed_reader, self.uncommitted_reader):
            wait_until(
                lambda reader=reader: all(copied[part].keys() <= reader.seen[part].keys() for part in copied),
                f"the {reader.name} has seen all that is committed",
                lambda reader=reader: str([len(copied[part].keys() - reader.seen[part].keys()) for part in copied]),
            )

    def _judge(self, written: Records, copied: Records) -> Figures:
        numbers = [value for records in written.values() for value in records.values()]
        assert sorted(map(int, numbers)) == list(range(self.feeder.count)), "the input itself is not what was sent"
        for partition, records in written.items():
            originals = [value.split(b"|")[0] for value in copied[partition].values()]
            assert originals == list(records.values()), _difference(list(records.values()), originals)
        for partition, records in copied.items():
            assert self.committed_reader.seen[partition] == records, "the standing reader saw something else"
            assert not [value for value in records.values() if value.endswith(b"|doomed")]
        everything = self.uncommitted_reader.seen
        aborted = sum(len(everything[partition].keys() - copied[partition].keys()) for partition in copied)
        outcomes = self._outcomes()
        return Figures(
            records=len(numbers),
            committed=outcomes["committed"],
            doomed=outcomes["doomed"],
            aborted=outcomes["aborted"],
            ended_workers=outcomes["ended"],
            aborted_copies=aborted,
        )


def _difference(expected: list[bytes], found: list[bytes]) -> str:
    missing = list((Counter(expected) - Counter(found)).elements())
    too_many = list((Counter(found) - Counter(expected)).elements())
    return f"missing {missing[:20]}, too many {too_many[:20]}, of {len(expected)}; otherwise the order differs"


def _read_all(bootstrap: str, topic: str, *, until_stable: bool = False) -> Records:
    """All committed records of a topic. `until_stable`: wait until no transaction is open any more."""
    consumer = consumer_of(bootstrap, **{"isolation.level": COMMITTED, "enable.partition.eof": True})
    places = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
    ends = {place.partition: consumer.get_watermark_offsets(place, timeout=PATIENCE_S)[1] for place in places}
    consumer.assign(places)
    found: Records = {partition: {} for partition in ends}
    unfinished = set(ends)
    deadline_s = time.monotonic() + PATIENCE_S
    while unfinished:
        assert time.monotonic() < deadline_s, f"partitions {unfinished} of {topic} could not be read up to {ends}"
        message = consumer.poll(1.0)
        if message is None:
            continue
        partition = message.partition()
        if message.error() is None:
            found[partition][message.offset()] = message.value()
            continue
        assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
        if message.offset() >= ends[partition] or not until_stable:
            unfinished.discard(partition)
    consumer.close()
    return found
