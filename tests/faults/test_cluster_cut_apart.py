"""The network between nodes is cut under load: one side at most goes on, and what it acked is there in the end."""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import Producer

from tests.faults.cluster_campaigns import NODE_COUNT, ClusterCampaign
from tests.faults.network_namespaces import CLIENTS, HostNetwork, Way, needs_namespaces
from tests.faults.node_clusters import Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from confluent_kafka import KafkaError, Message

    from tests.faults.cluster_campaigns import Fault
    from tests.faults.history import Partition

    Cut = Callable[[str, Sequence[str]], Sequence[Way]]

pytestmark = [needs_namespaces, pytest.mark.xdist_group("cluster")]

ROUNDS = int(os.environ.get("HEADRACE_ROUNDS", "30"))
SEED = int(os.environ.get("HEADRACE_SEED", "1"))
HOSTS = [f"host-{number}" for number in range(1, NODE_COUNT + 1)]
CUT_S = (0.5, 5.0)  # shorter and longer than the two seconds of a session
CONTROLLER_SHARE = 0.5  # of the victims; the others lead some partition, and may be the controller as well

CUT_OFF_S: Final = 8.0  # longer than any producer may wait
WAIT_MAX_S: Final = 5.0  # a session, an election, and what a client needs to hear of it


def halves(victim: str, others: Sequence[str]) -> Sequence[Way]:
    """Clients still reach both: the victim must take nothing that it cannot keep."""
    return [Way([victim], others), Way(others, [victim])]


def one_node(victim: str, others: Sequence[str]) -> Sequence[Way]:
    return halves(victim, [*others, CLIENTS])


def one_way_out(victim: str, others: Sequence[str]) -> Sequence[Way]:
    """The victim hears the others, and they do not hear it."""
    return [Way([victim], others)]


def one_way_in(victim: str, others: Sequence[str]) -> Sequence[Way]:
    """The others hear the victim, and it does not hear them."""
    return [Way(others, [victim])]


def one_line(victim: str, others: Sequence[str]) -> Sequence[Way]:
    """The victim and one other do not hear each other; the third hears both."""
    return halves(victim, others[:1])


CUTS: Mapping[str, Cut] = {
    "halves": halves,
    "one node": one_node,
    "one way out": one_way_out,
    "one way in": one_way_in,
    "one line": one_line,
}
SHORT = ("halves", "one node", "one way out")


class CampaignOnHosts:
    """A campaign whose nodes each have a host of their own, and so have the clients. Use it with `with`."""

    def __init__(self, home: Path, seed: int) -> None:
        self._network = HostNetwork(HOSTS)
        self._home = home
        self._seed = seed
        self._ending = ExitStack()

    def __enter__(self) -> CampaignOnHosts:
        with ExitStack() as starting:
            network = starting.enter_context(self._network)
            sites = [Site(self._home / host, network.address(host), network.command_at(host)) for host in HOSTS]
            self.campaign = starting.enter_context(ClusterCampaign(self._home, sites, self._seed))
            self._ending = starting.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def longest_wait_s(self) -> float:
        """How long a producer with its own defaults waits at most, while the leader of its partition is cut from the
        other nodes, and the producer still reaches it."""
        campaign = self.campaign
        campaign.cluster.wait_in_sync(campaign.partitions)
        partition = campaign.chance.choice(campaign.partitions)
        hosts = dict(zip(campaign.cluster.nodes, HOSTS, strict=True))
        with RunningProducer(campaign.cluster.bootstrap, partition) as producer:
            victim = hosts.pop(campaign.cluster.leader_id(partition))
            with self._network.cut(halves(victim, list(hosts.values()))):
                return producer.longest_wait_s(CUT_OFF_S)

    def cut(self, cut: Cut) -> Fault:
        @contextmanager
        def strike(campaign: ClusterCampaign) -> Iterator[float]:
            is_controller = campaign.chance.random() < CONTROLLER_SHARE
            victim = campaign.controller() if is_controller else campaign.any_leader()
            hosts = dict(zip(campaign.cluster.nodes.values(), HOSTS, strict=True))
            others = [hosts[node] for node in campaign.all_but(victim)]
            campaign.chance.shuffle(others)
            began_s = time.monotonic()
            with self._network.cut(cut(hosts[victim], others)):
                time.sleep(campaign.chance.uniform(*CUT_S))
            yield began_s

        return strike


class RunningProducer:
    """librdkafka as it comes. Use it with `with`: it sends for as long as the code inside runs."""

    def __init__(self, bootstrap: str, partition: Partition) -> None:
        self._partition = partition
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
        self._acked_s: list[float] = []
        self._errors: list[KafkaError] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> RunningProducer:
        self._thread.start()
        while len(self._acked_s) < 10:
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        assert not self._errors

    def longest_wait_s(self, within_s: float) -> float:
        """Between two acks from now on."""
        began_s = time.monotonic()
        time.sleep(within_s)
        ended_s = time.monotonic()
        times = [began_s, *(it for it in list(self._acked_s) if began_s < it < ended_s), ended_s]
        return max(later - earlier for earlier, later in pairwise(times))

    def _run(self) -> None:
        while not self._stopping.wait(0.02):
            self._producer.produce(
                self._partition.topic, b"going on", partition=self._partition.partition, on_delivery=self._delivered
            )
            self._producer.poll(0)
        self._producer.flush()

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self._acked_s.append(time.monotonic())
        else:
            self._errors.append(error)


def test_nothing_acked_is_lost_by_one_of_each(tmp_path: Path) -> None:
    with CampaignOnHosts(tmp_path, SEED) as hosts:
        for name in SHORT:
            hosts.campaign.suffer(name, hosts.cut(CUTS[name]))
        print(hosts.campaign.report(hosts.campaign.finish()))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", CUTS)
def test_nothing_acked_is_lost_again_and_again(tmp_path: Path, name: str) -> None:
    with CampaignOnHosts(tmp_path, SEED) as hosts:
        hosts.campaign.suffer(name, hosts.cut(CUTS[name]), ROUNDS)
        print(hosts.campaign.report(hosts.campaign.finish()))


def test_a_producer_of_a_leader_that_is_cut_off_goes_on_elsewhere(tmp_path: Path) -> None:
    with CampaignOnHosts(tmp_path, SEED) as hosts:
        assert hosts.longest_wait_s() < CUT_OFF_S


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_producer_of_a_leader_that_is_cut_off_soon_goes_on_elsewhere(tmp_path: Path) -> None:
    with CampaignOnHosts(tmp_path, SEED) as hosts:
        waits_s = sorted(hosts.longest_wait_s() for _ in range(20))
        print("waited", ", ".join(f"{wait_s:.2f}" for wait_s in waits_s), "s")
        assert waits_s[-1] <= WAIT_MAX_S
