"""Clusters of processes whose nodes know each other, and take nobody else for one."""

from __future__ import annotations

import re
import ssl
import subprocess
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer

from headrace.broker.listeners.opening import NODE
from headrace.broker.membership.dialing import NO_PROOF, Dialer, NodeProof
from headrace.client.connections.view import parse_address
from headrace.client.errors import AuthenticationFailed, ClientError
from headrace.client.security.credentials import PasswordCredentials
from headrace.model.names import NodeId
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import SystemDisk
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import SystemNetwork
from headrace.runtime.threads import SystemThreads
from headrace.runtime.tls.contexts import ClientTls
from headrace.runtime.world import World
from headrace.wire.messages.greet import GreetRequest, GreetResponse
from headrace.wire.messages.join_cluster import JoinClusterRequest, JoinClusterResponse
from headrace.wire.messages.raft_request_vote import RaftRequestVoteRequest
from headrace.wire.messages.raft_vote_answer import RaftVoteAnswerResponse
from tests.certificates import Certificates
from tests.clients.clusters import PATIENCE_S
from tests.clients.nodes import ANY_PORT, SERVE
from tests.clients.security.secured_clusters import NODES, SecuredCluster, SecuredProcesses
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from headrace.client.connections.connection import Connection

SECRET = "correct-horse-battery-staple"


def written(cluster: SecuredProcesses, topic: str, values: list[bytes]) -> None:
    producer = Producer({**cluster.client, "acks": "all", "message.timeout.ms": int(PATIENCE_S * 1000)})
    failures: list[object] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: error and failures.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert failures == []


def read(cluster: SecuredProcesses, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({**cluster.client, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = []
    deadline_s = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline_s:
        found += [message.value() for message in consumer.consume(count, 0.5) if message.error() is None]
    consumer.close()
    return sorted(found)


def serves_and_survives(cluster: SecuredProcesses) -> None:
    """It elects, replicates, and goes on without the node that led."""
    topic = cluster.create_topic("orders", [[1, 2, 3]])
    written(cluster, topic, [b"a", b"b"])
    told = cluster.admin.list_topics(timeout=PATIENCE_S).brokers.values()
    assert {f"{it.host}:{it.port}" for it in told} == {cluster.address(node_id) for node_id in cluster.node_ids}
    cluster.kill(1)
    written(cluster, topic, [b"c"])
    cluster.start(1)
    assert read(cluster, topic, 3) == [b"a", b"b", b"c"]


@asynccontextmanager
async def stranger(home: Path, proof: NodeProof, address: str) -> AsyncIterator[Connection]:
    """Somebody who knows our protocol, and shows what it has."""
    disk, threads = SystemDisk(home / "stranger"), SystemThreads()
    world = World(SystemClock(), disk, SystemEntropy(), SystemNetwork(), threads)
    try:
        connection = await Dialer(NodeId(9), world, proof).open(parse_address(address), request_timeout_s=PATIENCE_S)
        try:
            yield connection
        finally:
            connection.close()
    finally:
        threads.close()
        disk.close()


async def is_let_in(home: Path, proof: NodeProof, address: str) -> bool:
    """Whether it is answered when it greets, asks to be part of the cluster, or stands for election."""
    requests: list[tuple[Any, Any]] = [
        (GreetRequest(), GreetResponse),
        (JoinClusterRequest(9), JoinClusterResponse),
        (RaftRequestVoteRequest(1, source=9, term=1_000), RaftVoteAnswerResponse),
    ]
    answered = 0
    for message, answer in requests:
        try:
            async with stranger(home, proof, address) as connection:
                connection.versions |= {message.API_KEY: (0, 0)}  # whatever it is offered
                await connection.request(message, answer)
                answered += 1
        except ClientError:
            pass
    assert answered in {0, len(requests)}
    return answered > 0


async def test_nodes_that_know_each_other_by_certificates(tmp_path: Path) -> None:
    secured = SecuredCluster(tmp_path)
    configs = secured.for_clients | secured.by_certificates
    alice = secured.certificates.issue("alice", unit="people")
    forged = Certificates(tmp_path, "other").issue("forged", unit=NODES)
    forged = forged._replace(authority=secured.certificates.path)  # it trusts the right one
    with SecuredProcesses(tmp_path, configs, secured.client) as cluster:
        serves_and_survives(cluster)
        meeting = cluster.meeting(2)
        assert await is_let_in(tmp_path, NodeProof(ClientTls(secured.node.settings())), meeting)
        for proof in (
            NO_PROOF,
            NodeProof(ClientTls(secured.node.trusting)),  # no certificate
            NodeProof(ClientTls(forged.settings())),  # of an authority that nobody here knows
            NodeProof(ClientTls(alice.settings())),  # of the right one, and no node
        ):
            assert not await is_let_in(tmp_path, proof, meeting)
        assert "no rule of ssl.principal.mapping.rules fits the name in its certificate, 'CN=alice,OU=people'" in (
            cluster.log_of(2)
        )
        renewed = secured.certificates.issue("node", unit=NODES)
        assert renewed.certificate == secured.node.certificate
        expected = ssl.PEM_cert_to_DER_cert(renewed.certificate.read_text())
        await_certificate(cluster.meeting(3), expected)
        await_certificate(cluster.address(3), expected)
        cluster.kill(2)  # whoever calls it again shows the new one
        cluster.start(2)
        written(cluster, "orders", [b"d"])


def await_certificate(address: str, expected: bytes) -> None:
    """Until that is what is shown there."""
    host, _, port = address.rpartition(":")
    deadline_s = time.monotonic() + PATIENCE_S
    shown = b""
    while shown != expected and time.monotonic() < deadline_s:
        pem = ssl.get_server_certificate((host, int(port)))
        shown = ssl.PEM_cert_to_DER_cert(pem)
        time.sleep(0.1)
    assert shown == expected


async def test_nodes_that_know_each_other_by_a_secret(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(SECRET)
    path.chmod(0o600)
    configs = {"headrace.cluster.secret.file": str(path)}
    with SecuredProcesses(tmp_path, configs, {}) as cluster:
        serves_and_survives(cluster)
        meeting = cluster.meeting(2)
        assert await is_let_in(tmp_path, knowing(SECRET), meeting)
        assert not await is_let_in(tmp_path, NO_PROOF, meeting)
        with pytest.raises(AuthenticationFailed):
            async with stranger(tmp_path, knowing(SECRET + "?"), meeting):
                pass
        assert not await is_let_in(tmp_path, knowing(SECRET, "alice"), meeting)
        with pytest.raises(AuthenticationFailed, match="nobody logs in at this address"):
            async with stranger(tmp_path, knowing(SECRET), cluster.address(2)):
                pass
        wrong = tmp_path / "wrong"
        wrong.write_text(SECRET[::-1])
        wrong.chmod(0o600)
        said = what_is_said_by(9, f"1@{cluster.meeting(1)}", tmp_path, f"headrace.cluster.secret.file={wrong}")
        assert re.search(r"node 1 does not answer: .* the login of 'node' by SCRAM-SHA-512 failed", said), said
        for node_id in cluster.node_ids:
            assert SECRET not in cluster.log_of(node_id)


def what_is_said_by(node_id: int, others: str, home: Path, setting: str) -> str:
    """The first warning of a node that is to found a cluster with others."""
    voters = f"{node_id}@127.0.0.1:{free_port()},{others}"
    place = ["--data-dir", str(home / "founder"), "--listen", ANY_PORT, "--advertise", "127.0.0.1:1", "--http", "off"]
    command = [*SERVE, "--node-id", str(node_id), "--voters", voters, *place, "-X", setting]
    node = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert node.stderr is not None
        return next((line for line in node.stderr if "WARNING" in line), "")
    finally:
        node.kill()
        node.communicate()


def knowing(secret: str, user: str = NODE) -> NodeProof:
    return NodeProof(credentials=PasswordCredentials("SCRAM-SHA-512", user, secret))
