"""A majority of the disks is gone: what one survivor has is read, written to files, and is the beginning of a new
cluster. Real processes, and the command as an operator calls it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.broker.membership.identity import IDENTITY_FILE
from headrace.broker.rescue import rescue
from headrace.runtime.disk import SystemDisk
from tests.clients.clusters import PATIENCE_S, ClusterProcesses, wait_until
from tests.clients.commands import NOBODY, Ran, call
from tests.clients.nodes import SERVE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.docs.told_blocks import ToldBlocks

pytest_plugins = ["tests.docs.told_blocks"]

SURVIVOR: Final = 1
ORDERS: Final = "orders"
ELSEWHERE: Final = "elsewhere"
PAYMENTS: Final = "payments"
GROUP: Final = "billing"
TRANSACTIONAL_ID: Final = "payer"
ORDER_COUNT: Final = 200
PARTITION_COUNT: Final = 2
BATCH: Final = 50
BILLED: Final = 40  # in each partition, as the group has committed
CONSENT: Final = "--yes-i-may-lose-data"


# ---- a cluster with all sorts of data, and what one disk has left of it


class Ruin:
    """Data directories of a cluster whose processes were killed."""

    def __init__(self, home: Path, orders: list[str]) -> None:
        self.home = home
        self.orders = orders

    def copy(self, target: Path, node_id: int = SURVIVOR) -> Path:
        return shutil.copytree(self.home / f"node-{node_id}", target / f"node-{node_id}")


@pytest.fixture(scope="module")
def ruin(tmp_path_factory: pytest.TempPathFactory) -> Ruin:
    home = tmp_path_factory.mktemp("old")
    with ClusterProcesses(home) as cluster:
        cluster.create_topic(ORDERS, [[2, 1, 3]] * PARTITION_COUNT)
        cluster.create_topic(PAYMENTS, [[3, 1, 2]], {"retention.ms": "86400000"})
        cluster.create_topic(ELSEWHERE, [[2, 3]])
        orders = [f"order {number}" for number in range(ORDER_COUNT)]
        send(cluster.bootstrap_servers, ORDERS, orders)
        send(cluster.bootstrap_servers, ELSEWHERE, ["gone"])
        bill(cluster.bootstrap_servers)
        pay(cluster.bootstrap_servers)
        # The last of what was acknowledged is on all disks, and the survivor knows that it is in sync.
        wait_until(
            lambda: all(isr == [1, 2, 3] for _, _, isr in cluster.partitions(ORDERS).values()), "all are in sync"
        )
        cluster.kill(1, 2, 3)
    return Ruin(home, orders)


def send(bootstrap_servers: str, topic: str, values: list[str]) -> None:
    """Acknowledged by all in sync."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "linger.ms": 5})
    failures: list[object] = []
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value,
            key=value,
            partition=number % PARTITION_COUNT if topic == ORDERS else 0,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
        if number % BATCH == BATCH - 1:
            producer.flush(PATIENCE_S)
    assert producer.flush(PATIENCE_S) == 0
    assert not failures


def bill(bootstrap_servers: str) -> None:
    """A group has read the first records of each partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": GROUP})
    places = [TopicPartition(ORDERS, number, BILLED) for number in range(PARTITION_COUNT)]
    consumer.commit(offsets=[*places, TopicPartition(ELSEWHERE, 0, 1)], asynchronous=False)
    consumer.close()


def pay(bootstrap_servers: str) -> None:
    """One transaction committed, one aborted, one never ended."""
    payer = payer_of(bootstrap_servers)
    for end in (payer.commit_transaction, payer.abort_transaction, None):
        payer.begin_transaction()
        for number in range(3):
            payer.produce(PAYMENTS, f"{end.__name__ if end else 'open'} {number}", partition=0)
        payer.flush(PATIENCE_S)
        if end is not None:
            end(PATIENCE_S)


def payer_of(bootstrap_servers: str) -> Producer:
    payer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": TRANSACTIONAL_ID})
    payer.init_transactions(PATIENCE_S)
    return payer


def read(bootstrap_servers: str, topic: str, count: int) -> list[str]:
    """The first so many committed values of all partitions."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "reader", "isolation.level": "read_committed"}
    )
    partitions = consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    try:
        return values_of(consumer, count)
    finally:
        consumer.close()


def values_of(consumer: Consumer, count: int) -> list[str]:
    values: list[str] = []

    def is_read() -> bool:
        for message in consumer.consume(count - len(values), timeout=1.0):
            assert message.error() is None, message.error()
            values.append(message.value().decode())
        return len(values) >= count

    wait_until(is_read, f"{count} records are read")
    return values


def rescued(*arguments: str | Path) -> Ran:
    return call(NOBODY, "rescue", *map(str, arguments))


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }


# ---- a new cluster


def test_a_survivor_goes_on_alone_with_all_that_it_had(ruin: Ruin, tmp_path: Path) -> None:
    survivor = ruin.copy(tmp_path)
    ran = rescued("new-cluster", survivor, CONSENT)
    assert ran.code == 0, ran.talk
    assert f"{ELSEWHERE}-0" in ran.talk
    assert "LOST" in ran.talk
    with ClusterProcesses(tmp_path, 1) as cluster:
        assert sorted(read(cluster.bootstrap_servers, ORDERS, ORDER_COUNT)) == sorted(ruin.orders)
        assert the_group_goes_on(cluster.bootstrap_servers) == ORDER_COUNT - PARTITION_COUNT * BILLED
        moved = call(
            cluster.bootstrap_servers,
            *("groups", "reset-offsets", "--group", GROUP, "--topic", ELSEWHERE, "--shift-by", "0", "--format", "json"),
        )
        assert moved.code == 0, moved.talk
        assert json.loads(moved.out)[0]["new_offset"] == 0
        payer = payer_of(cluster.bootstrap_servers)  # ends what its last life left open
        payer.begin_transaction()
        payer.produce(PAYMENTS, "paid anew", partition=0)
        payer.commit_transaction(PATIENCE_S)
        paid = [*(f"commit_transaction {number}" for number in range(3)), "paid anew"]
        assert read(cluster.bootstrap_servers, PAYMENTS, len(paid)) == paid
        send(cluster.bootstrap_servers, ORDERS, ["one more"])
        send(cluster.bootstrap_servers, ELSEWHERE, ["begun anew"])
        assert read(cluster.bootstrap_servers, ELSEWHERE, 1) == ["begun anew"]


def the_group_goes_on(bootstrap_servers: str) -> int:
    """How many records it has still to read."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": GROUP, "auto.offset.reset": "error"})
    consumer.subscribe([ORDERS])
    try:
        return len(values_of(consumer, ORDER_COUNT - PARTITION_COUNT * BILLED))
    finally:
        consumer.close()


def test_others_join_the_new_cluster_and_those_of_the_old_one_are_refused(ruin: Ruin, tmp_path: Path) -> None:
    survivor, old = ruin.copy(tmp_path), ruin.copy(tmp_path, 3)
    before = contents(old)
    assert rescued("new-cluster", survivor, CONSENT, "--keep-replicas").code == 0
    with ClusterProcesses(tmp_path, 1, guests=2) as cluster:
        refused = subprocess.run(
            [
                *(*SERVE, "--node-id", "3", "--data-dir", old, "--listen", cluster.address(3), "--http", "off"),
                *cluster.way_in(3),
            ],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert refused.returncode == 1
        assert "belongs to" in refused.stderr
        assert contents(old).keys() >= before.keys()

        cluster.start(2)
        wait_until(
            lambda: all(isr == [1, 2] for _, _, isr in cluster.partitions(ORDERS).values()), "the new node is in sync"
        )
        send(cluster.bootstrap_servers, ORDERS, ["written by two"])
        assert sorted(read(cluster.bootstrap_servers, ORDERS, ORDER_COUNT + 1)) == sorted(
            [*ruin.orders, "written by two"]
        )


def test_a_rescue_that_was_killed_is_gone_on_with_and_no_node_starts_before(ruin: Ruin, tmp_path: Path) -> None:
    survivor = ruin.copy(tmp_path)
    assert rescued("new-cluster", survivor, CONSENT).code == 0
    (done,) = survivor.glob("rescue-*")
    shutil.copytree(done / "before", survivor, dirs_exist_ok=True)  # as it was right after the promise
    disk = SystemDisk(survivor)
    rescue.promise(disk, done.name)
    disk.close()
    with pytest.raises(AssertionError, match="run `headrace rescue new-cluster` again"):
        ClusterProcesses(tmp_path, 1).__enter__()
    looked = rescued("inspect", survivor)
    assert (looked.code, f"{done.name}: run" in looked.out) == (3, True)
    ran = rescued("new-cluster", survivor)
    assert ran.code == 0
    assert "it goes on" in ran.talk
    with ClusterProcesses(tmp_path, 1) as cluster:
        assert len(read(cluster.bootstrap_servers, ORDERS, ORDER_COUNT)) == ORDER_COUNT


def test_lost_partitions_may_wait_for_an_operator(ruin: Ruin, tmp_path: Path) -> None:
    survivor = ruin.copy(tmp_path)
    assert rescued("new-cluster", survivor, CONSENT, "--lost", "offline").code == 0
    with ClusterProcesses(tmp_path, 1) as cluster:
        assert cluster.partitions(ELSEWHERE)[0][0] == -1
        elected = call(
            cluster.bootstrap_servers, "cluster", "elect-leaders", "--unclean", "--yes", "--topic", ELSEWHERE
        )
        assert elected.code == 0, elected.talk
        assert cluster.partitions(ELSEWHERE)[0][0] == SURVIVOR


def test_without_consent_nothing_is_changed(ruin: Ruin, tmp_path: Path) -> None:
    survivor = ruin.copy(tmp_path)
    before = contents(survivor)
    asked = rescued("new-cluster", survivor)
    assert asked.code == 2
    assert CONSENT in asked.talk
    tried = rescued("new-cluster", survivor, "--dry-run", "--format", "json")
    assert tried.code == 0
    fates = {(it["topic"], it["partition"]): it["fate"] for it in json.loads(tried.out)["partitions"]}
    assert fates[ORDERS, 0] == "kept"
    assert fates[ELSEWHERE, 0] == "lost"
    (stranded,) = json.loads(tried.out)["stranded_groups"]
    assert stranded == {"group": GROUP, "topic": ELSEWHERE, "partition": 0, "committed": 1, "end_offset": 0}
    assert f"{GROUP} at 1 of {ELSEWHERE}-0" in tried.talk
    assert contents(survivor) == before


def test_a_node_that_runs_is_left_alone(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, 1) as cluster:
        place = cluster.data_dir(1)
        for arguments in (
            ("inspect", place),
            ("dump", place, "--to", tmp_path / "out"),
            ("new-cluster", place, CONSENT),
        ):
            ran = rescued(*arguments)
            assert ran.code == 1
            assert "in use" in ran.talk
        assert not (tmp_path / "out").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_the_directory_of_another_account_is_not_written_to(ruin: Ruin, tmp_path: Path) -> None:
    """Root would leave files behind that the node's own account cannot read."""
    survivor = ruin.copy(tmp_path)
    before = contents(survivor)
    os.chown(survivor / IDENTITY_FILE, 65_534, -1)
    ran = rescued("new-cluster", survivor, CONSENT)
    assert ran.code == 1
    assert "sudo -u '#65534'" in ran.talk
    assert contents(survivor) == before


# ---- looking and dumping


def test_what_a_directory_holds_is_shown_and_nothing_is_changed(ruin: Ruin, tmp_path: Path) -> None:
    survivor = ruin.copy(tmp_path)
    before = contents(survivor)
    for path in survivor.rglob("*"):
        path.chmod(0o500 if path.is_dir() else 0o400)
    ran = rescued("inspect", survivor, "--verify", "--format", "json")
    assert ran.code == 0, ran.talk
    found = json.loads(ran.out)
    assert (found["node_id"], found["metadata"]["voters"]) == (SURVIVOR, [1, 2, 3])
    partitions = {(it["topic"], it["partition"]): it for it in found["partitions"]}
    orders = partitions[ORDERS, 0]
    assert (orders["state"], orders["start_offset"], orders["end_offset"]) == ("in sync", 0, ORDER_COUNT // 2)
    assert sorted(orders["isr"]) == [1, 2, 3]
    assert partitions[ELSEWHERE, 0]["state"] == "not here"
    assert len(partitions[PAYMENTS, 0]["open_transactions"]) == 1
    assert f"{ORDERS}-1" in rescued("inspect", survivor).out
    assert contents(survivor) == before


def form_of(shown: str) -> tuple[list[str], list[str]]:
    """What is told above the table, and the table's columns."""
    facts, _, table = shown.partition("\n\n")
    return [line.partition(":")[0] for line in facts.splitlines()], table.splitlines()[0].split()


def test_the_page_shows_what_a_directory_holds(ruin: Ruin, tmp_path: Path, told_blocks: ToldBlocks) -> None:
    (command,) = told_blocks.take("$ headrace rescue inspect").commands
    line = command.line.replace("/var/lib/headrace", str(ruin.copy(tmp_path)))
    ran = call(NOBODY, *shlex.split(line)[1:])
    assert ran.code == 0, ran.talk
    assert form_of(ran.out) == form_of(command.shown)


def test_what_was_dumped_is_brought_into_another_cluster(ruin: Ruin, tmp_path: Path) -> None:
    survivor, out = ruin.copy(tmp_path / "old"), tmp_path / "out"
    before = contents(survivor)
    ran = rescued("dump", survivor, "--to", out)
    assert ran.code == 0, ran.talk
    assert contents(survivor) == before
    assert "3 aborted records left out" in ran.talk
    still_open = [
        json.loads(line)["value"] for line in (out / f"topics/{PAYMENTS}/0.open.jsonl").read_text().splitlines()
    ]
    assert still_open == ["open 0", "open 1", "open 2"]
    with ClusterProcesses(tmp_path, 1) as cluster:
        command = cluster.home / "bin" / "headrace"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec {" ".join(SERVE[:-1])} "$@"\n')
        command.chmod(0o700)
        environment = {
            **os.environ,
            "PATH": f"{command.parent}:{os.environ['PATH']}",
            "HEADRACE_BOOTSTRAP_SERVER": cluster.bootstrap_servers,
        }
        subprocess.run([out / "restore.sh"], env=environment, check=True, timeout=PATIENCE_S)
        assert sorted(read(cluster.bootstrap_servers, ORDERS, ORDER_COUNT)) == sorted(ruin.orders)
        assert read(cluster.bootstrap_servers, PAYMENTS, 3) == [f"commit_transaction {number}" for number in range(3)]
        described = call(cluster.bootstrap_servers, "configs", "describe", "--topic", PAYMENTS, "--changed").out
        assert "retention.ms" in described


def test_damaged_places_are_passed_over_and_named(ruin: Ruin, tmp_path: Path) -> None:
    survivor, out = ruin.copy(tmp_path), tmp_path / "out"
    log = the_log_of(survivor, ORDERS, 0)
    content = bytearray(log.read_bytes())
    content[70] ^= 1  # in the first batch
    log.write_bytes(content)
    assert rescued("inspect", survivor, "--verify").code == 3
    ran = rescued("dump", survivor, "--to", out, "--topic", ORDERS)
    assert ran.code == 3
    manifest = json.loads((out / "manifest.json").read_text())
    (damaged,) = next(it for it in manifest["files"] if it["partition"] == 0)["damaged"]
    assert damaged["first_offset"] == 0
    offsets = [json.loads(line)["offset"] for line in (out / f"topics/{ORDERS}/0.jsonl").read_text().splitlines()]
    assert offsets == list(range(damaged["last_offset"] + 1, ORDER_COUNT // 2))
    assert "DAMAGED" in rescued("new-cluster", survivor, CONSENT, "--verify").talk


def test_a_dump_does_not_go_where_it_comes_from(ruin: Ruin, tmp_path: Path) -> None:
    survivor = ruin.copy(tmp_path)
    assert rescued("dump", survivor, "--to", survivor / "out").code == 2
    assert not (survivor / "out").exists()
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "something").touch()
    assert "not empty" in rescued("dump", survivor, "--to", taken).talk


def test_topics_are_dumped_also_without_metadata(ruin: Ruin, tmp_path: Path) -> None:
    survivor, out = ruin.copy(tmp_path), tmp_path / "out"
    shutil.rmtree(survivor / "topics" / "AAAAAAAAAAAAAAAAAAAAAQ-0")
    ran = rescued("dump", survivor, "--to", out, "--topic", ORDERS)
    assert ran.code == 3
    assert "the metadata log is missing" in ran.talk
    lines = [line for number in range(2) for line in (out / f"topics/{ORDERS}/{number}.jsonl").read_text().splitlines()]
    assert sorted(json.loads(line)["value"] for line in lines) == sorted(ruin.orders)
    refused = rescued("new-cluster", survivor, CONSENT)
    assert refused.code == 1
    assert "rescue dump" in refused.talk


def the_log_of(survivor: Path, topic: str, partition: int) -> Path:
    wanted = f"topic: {topic}\npartition: {partition}\n"
    directory = next(it.parent for it in survivor.glob("topics/*/partition.name") if it.read_text() == wanted)
    return directory / f"{0:020d}.log"


# ---- what is no data directory


def test_an_unknown_directory_is_not_found(tmp_path: Path) -> None:
    place, out = tmp_path / "place", tmp_path / "out"
    place.mkdir()
    for arguments in (("inspect", place), ("dump", place, "--to", out), ("new-cluster", place, CONSENT)):
        ran = rescued(*arguments)
        assert ran.code == 3
        assert "no data directory" in ran.talk
    assert not list(place.iterdir())
    assert not out.exists()


def test_a_directory_of_another_version_is_refused(ruin: Ruin, tmp_path: Path) -> None:
    survivor = ruin.copy(tmp_path)
    identity = survivor / IDENTITY_FILE
    identity.write_text(identity.read_text().replace("version=1", "version=2"))
    for arguments in (("inspect", survivor), ("new-cluster", survivor, CONSENT)):
        ran = rescued(*arguments)
        assert ran.code == 1
        assert "format 2" in ran.talk


def test_a_topic_that_is_not_there_is_not_found(ruin: Ruin, tmp_path: Path) -> None:
    survivor = ruin.copy(tmp_path)
    ran = rescued("dump", survivor, "--to", tmp_path / "out", "--topic", "nothing")
    assert ran.code == 3
    assert "no log of nothing" in ran.talk


@pytest.fixture(autouse=True)
def _nothing_left_read_only(tmp_path: Path) -> Iterator[None]:
    """So that pytest can remove it."""
    yield
    for path in (tmp_path, *tmp_path.rglob("*")):
        if path.is_dir():
            path.chmod(0o700)
