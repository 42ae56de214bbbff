"""`headrace consume` while a partition has no leader: the others are read, and a person is told."""

from __future__ import annotations

import subprocess
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.clients.clusters import PATIENCE_S, ClusterProcesses, wait_until
from tests.clients.commands import COMMAND, call, environment
from tests.clients.nodes import new_name

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.xdist_group("cluster")

LOST, KEPT = "0", "1"
"""A partition on the node that is killed, and one on another."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with ClusterProcesses(tmp_path_factory.mktemp("cluster"), configs=settings) as running:
        yield running


@pytest.fixture
def half_lost(cluster: ClusterProcesses) -> Iterator[str]:
    """A topic with a message in each of its partitions, one of which has no leader. Node 3 is down."""
    topic = cluster.create_topic(new_name("half"), [[3], [1]])
    for partition in (LOST, KEPT):
        send(cluster, topic, partition, f"early {partition}")
    call(cluster.bootstrap_servers, "consume", "--topic", topic, "--group", f"{topic}-before")
    cluster.kill(3)
    wait_until(lambda: cluster.partitions(topic)[0][0] == -1, "the partition has no leader")
    yield topic
    cluster.kill(3)  # if it is back already
    cluster.start(3)


def send(cluster: ClusterProcesses, topic: str, partition: str, line: str) -> None:
    sent = call(cluster.bootstrap_servers, "produce", "--topic", topic, "--partition", partition, stdin=line)
    assert sent.code == 0, sent.talk


class Follower:
    """`consume --follow` in a process of its own; its lines go to files that can be looked at any time."""

    def __init__(self, cluster: ClusterProcesses, topic: str, *arguments: str) -> None:
        self._out = cluster.home / new_name("out")
        self._talk = cluster.home / new_name("talk")
        command = [*COMMAND, "consume", "--topic", topic, "--follow", *arguments]
        with self._out.open("w") as out, self._talk.open("w") as talk:
            self.running = subprocess.Popen(
                command, stdout=out, stderr=talk, env=environment(cluster.bootstrap_servers)
            )

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self.running.terminate()
        self.running.wait(PATIENCE_S)

    @property
    def lines(self) -> list[str]:
        return sorted(self._out.read_text().splitlines())

    @property
    def talk(self) -> str:
        return self._talk.read_text()


def test_whoever_follows_goes_on_with_the_others_until_all_are_back(cluster: ClusterProcesses, half_lost: str) -> None:
    ways = {"alone": [], "by time": ["--order", "time"], "as a group": ["--group", new_name("fresh")]}
    with ExitStack() as stack:
        followers = [stack.enter_context(Follower(cluster, half_lost, *way)) for way in ways.values()]
        followers.append(stack.enter_context(Follower(cluster, half_lost, "--group", f"{half_lost}-before")))
        for follower in followers:
            wait_until(lambda it=follower: f"leads {half_lost}-{LOST}" in it.talk, "it says what has no leader")
        time.sleep(15)  # as long as passing trouble is ridden out: nobody may give up after that
        send(cluster, half_lost, KEPT, "late")
        for follower in followers:
            wait_until(lambda it=follower: "late" in it.lines, "what the others have is read")
            assert follower.running.poll() is None
        cluster.start(3)
        send(cluster, half_lost, LOST, "back")
        for follower in followers:
            wait_until(lambda it=follower: "back" in it.lines, "it is read again")
            wait_until(lambda it=follower: f"somebody leads {half_lost}-{LOST} again" in it.talk, "it says so")
            assert follower.talk.count("no node that is alive leads") == 1
        *fresh, known = [follower.lines for follower in followers]
        assert fresh == [sorted([f"early {LOST}", f"early {KEPT}", "late", "back"])] * len(ways)
        assert known == ["back", "late"]


@pytest.mark.parametrize("way", [[], ["--order", "time"], ["--group", "fresh"]], ids=["alone", "by time", "as a group"])
def test_whoever_does_not_follow_reads_what_there_is_and_names_the_rest(
    cluster: ClusterProcesses, half_lost: str, way: list[str]
) -> None:
    ran = call(cluster.bootstrap_servers, "consume", "--topic", half_lost, *way)
    assert (ran.code, ran.lines) == (1, [f"early {KEPT}"])
    assert f"error: no node that is alive leads {half_lost}-{LOST}: not read to the end" in ran.talk


def test_a_topic_that_is_deleted_ends_its_followers(cluster: ClusterProcesses, half_lost: str) -> None:
    """Waiting for a leader of it would be in vain."""
    with Follower(cluster, half_lost) as follower:
        wait_until(lambda: f"early {KEPT}" in follower.lines, "it reads")
        deleted = call(cluster.bootstrap_servers, "topics", "delete", "--name", half_lost, "--yes")
        assert deleted.code == 0, deleted.talk
        assert follower.running.wait(PATIENCE_S) == 3
    # The other, if librdkafka has asked for it once more meanwhile, by which a topic with one partition is made.
    assert f"there is no topic '{half_lost}'" in follower.talk or "has no partition 1" in follower.talk
