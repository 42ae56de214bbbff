"""The walk-through's pipeline on a Spark cluster: nothing is changed but the master, and a machine fails meanwhile."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from confluent_kafka import Producer

from headrace.cli.demo.command import PIPELINE_FILE
from tests.clients.commands import COMMAND, environment
from tests.clients.nodes import PATIENCE_S
from tests.spark.test_walk_through import SAMPLES_DIRECTORY
from tests.spark.topic_contents import everything_in
from tests.spark.two_host_cluster import WORKER_HOSTS, TwoHostCluster, can_be_two_hosts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.clients.nodes import NodeProcess

pytestmark = pytest.mark.xdist_group("official-connector")
pytest_plugins = ["tests.clients.node_fixtures"]

HANG_S: Final = 900
LOOK_S: Final = 0.05
ORDERS: Final = 30_000
MINUTES: Final = 5
SKUS: Final = ("tea", "coffee", "mate")


class Order(NamedTuple):
    number: int

    @property
    def sku(self) -> str:
        return SKUS[self.number % len(SKUS)]

    @property
    def minute(self) -> int:
        return self.number % MINUTES

    @property
    def amount(self) -> float | str:
        """Some are no numbers, and some are not above zero."""
        if self.number % 97 == 0:
            return "a lot"
        return -1.0 if self.number % 101 == 0 else self.number % 7 + 0.5

    @property
    def is_good(self) -> bool:
        return isinstance(self.amount, float) and self.amount > 0

    @property
    def value(self) -> str:
        at = f"2026-01-01T12:0{self.minute}:{self.number % 60:02}Z"
        return json.dumps({"id": self.number, "sku": self.sku, "amount": self.amount, "at": at})


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TwoHostCluster]:
    if not can_be_two_hosts():
        pytest.skip("this system has one address of its own only")
    with TwoHostCluster(tmp_path) as cluster:
        yield cluster


def send_orders(node: NodeProcess) -> list[Order]:
    """Every tenth good one is sent twice."""
    node.create_topic("orders", partitions=3)
    producer = Producer({"bootstrap.servers": node.bootstrap_servers, "linger.ms": 50})
    orders = [Order(number) for number in range(ORDERS)]
    for order in orders:
        for _ in range(2 if order.is_good and order.number % 10 == 0 else 1):
            producer.produce("orders", order.value, order.sku)
    assert producer.flush(PATIENCE_S) == 0
    return orders


def sums_of(orders: list[Order]) -> Counter[tuple[str, str, int, float]]:
    sums: dict[tuple[int, str], tuple[int, float]] = {}
    for order in orders:
        if order.is_good:
            count, amount = sums.get((order.minute, order.sku), (0, 0.0))
            sums[order.minute, order.sku] = count + 1, amount + float(order.amount)
    return Counter(
        (f"2026-01-01T12:0{minute}:00.000Z", sku, count, amount) for (minute, sku), (count, amount) in sums.items()
    )


def written_sums(node: NodeProcess) -> Counter[tuple[str, str, int, float]]:
    rows = [json.loads(each.value or b"") for each in everything_in(node, "orders-per-minute")]
    return Counter((row["minute"], row["sku"], row["orders"], row["amount"]) for row in rows)


@pytest.mark.timeout(HANG_S)
def test_another_master_is_all_it_takes_and_a_machine_may_fail(
    cluster: TwoHostCluster, own_node: NodeProcess, tmp_path: Path
) -> None:
    orders = send_orders(own_node)
    file = shutil.copy(SAMPLES_DIRECTORY / PIPELINE_FILE, tmp_path)
    unwanted = {"PYSPARK_PYTHON", "PYSPARK_SUBMIT_ARGS", "PYTHONPATH"}
    environ = {name: value for name, value in environment(own_node.bootstrap_servers).items() if name not in unwanted}
    environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # a test machine's name may lead nowhere

    with subprocess.Popen(
        [*COMMAND, "pipeline", "run", file, "--master", cluster.master],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        try:
            victim, survivor = WORKER_HOSTS
            while not cluster.has_run_a_task(victim):
                assert running.poll() is None, running.communicate()
                time.sleep(LOOK_S)
            cluster.kill_host(victim)
            assert running.poll() is None, running.communicate()
            cluster.wait_until_missed(victim)
            out, _ = running.communicate(timeout=HANG_S)
        finally:
            running.kill()

    assert running.returncode == 0, out
    assert "failed" not in out
    assert cluster.has_run_a_task(survivor)
    assert written_sums(own_node) == sums_of(orders)
    dead_letters = Counter(
        (each.value or b"").decode() for each in everything_in(own_node, "orders-per-minute.dead-letters")
    )
    assert dead_letters == Counter(order.value for order in orders if not order.is_good)
