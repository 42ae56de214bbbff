"""Kafka's server.properties, as a node understands it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.access.listeners import ClientAuth
from headrace.broker.listeners.plans import planned
from headrace.cli.serve.kafka_settings import reason_against, reason_without
from headrace.cli.serve.server_properties import (
    _OF_THE_PLACE,
    ServerProperties,
    UnusableProperties,
    parse_server_properties,
)
from headrace.metadata.configs.node_configs import NODE_CONFIGS
from headrace.runtime.network import Address

STOCK = Path(__file__).parents[2] / "clients" / "stock"
KAFKA_NAMES = (Path(__file__).parent / "kafka_broker_settings.txt").read_text().split()
"""All that KafkaConfig of Apache Kafka 4.3.1 defines."""
LOOPBACK = "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\ncontroller.listener.names=CONTROLLER\n"


def meant(text: str) -> ServerProperties:
    return parse_server_properties(text.encode())


def refusal_of(text: str) -> str:
    with pytest.raises(UnusableProperties) as refused:
        parse_server_properties(text.encode())
    return str(refused.value)


def test_the_stock_file() -> None:
    said = parse_server_properties((STOCK / "server.properties").read_bytes())
    assert said.node_id == 1
    assert said.data_dir == Path("/tmp/kraft-combined-logs")
    plans = planned(said.configs)
    assert [(it.name, it.at, it.told) for it in plans.clients] == [
        ("PLAINTEXT", Address("0.0.0.0", 9092), Address("localhost", 9092))
    ]
    assert plans.nodes_at == Address("0.0.0.0", 9093)
    assert said.voters == {1: Address("localhost", 9093)}
    assert said.join == ()
    assert said.configs == {
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "socket.request.max.bytes": "104857600",
        "num.partitions": "1",
        "log.retention.hours": "168",
        "log.segment.bytes": "1073741824",
        "log.retention.check.interval.ms": "300000",
    }
    assert [note.split(" does nothing: ")[0] for note in said.notes] == [
        "line 10: inter.broker.listener.name",
        "line 14: num.network.threads",
        "line 15: num.io.threads",
        "line 16: socket.send.buffer.bytes",
        "line 17: socket.receive.buffer.bytes",
        "line 23: num.recovery.threads.per.data.dir",
        "line 26: offsets.topic.replication.factor",
        "line 27: share.coordinator.state.topic.replication.factor",
        "line 28: share.coordinator.state.topic.min.isr",
        "line 29: transaction.state.log.replication.factor",
        "line 30: transaction.state.log.min.isr",
    ]


def test_a_broker_of_its_own_enters_the_cluster_that_is_there() -> None:
    said = parse_server_properties((STOCK / "broker.properties").read_bytes())
    assert (said.node_id, said.voters, said.join) == (2, {}, (Address("localhost", 9093),))
    assert planned(said.configs).nodes_at is None  # the command line has to say it


def test_a_controller_alone_is_refused() -> None:
    said = refusal_of((STOCK / "controller.properties").read_text())
    assert said.startswith("line 4: process.roles=controller: a node here is broker and controller in one")


def test_founders_are_voters() -> None:
    said = meant(LOOPBACK + "node.id=2\ncontroller.quorum.voters=1@10.0.0.1:9093,2@10.0.0.2:9093,3@[fd00::3]:9093")
    assert said.voters == {1: Address("10.0.0.1", 9093), 2: Address("10.0.0.2", 9093), 3: Address("fd00::3", 9093)}
    assert said.join == ()


def test_bootstrap_servers_elsewhere_are_a_cluster_to_enter() -> None:
    said = meant(LOOPBACK + "process.roles=broker,controller\ncontroller.quorum.bootstrap.servers=a:9093,b:9093")
    assert (said.voters, said.join) == ({}, (Address("a", 9093), Address("b", 9093)))


def test_who_founds_a_cluster_must_be_said() -> None:
    said = refusal_of(LOOPBACK + "controller.quorum.bootstrap.servers=127.0.0.1:9093,b:9093")
    assert "name all of them in controller.quorum.voters=ID@host:port,…" in said


def test_older_names_and_texts_with_blanks() -> None:
    said = meant("broker.id=7\nlog.dir = /var/lib/x \nbroker.rack=r1\nunclean.leader.election.enable = false ")
    assert (said.node_id, said.data_dir, said.rack) == (7, Path("/var/lib/x"), "r1")
    assert said.configs == {"unclean.leader.election.enable": "false"}


def test_a_name_that_comes_again_counts_as_it_is_there_last() -> None:
    said = meant("num.partitions=1\nnum.partitions=4")
    assert said.configs == {"num.partitions": "4"}
    assert said.notes == ("line 1: num.partitions is set again in line 2, and that counts",)


def test_a_listener_on_every_interface_is_told_by_the_name_of_the_machine() -> None:
    said = meant("listeners=PLAINTEXT://:9092")
    (listener,) = planned(said.configs).clients
    assert listener.told is not None
    assert listener.told.host not in {"", "0.0.0.0"}
    assert said.notes[0].startswith("advertised.listeners does not name PLAINTEXT: clients are told to look at ")


def test_an_empty_text_asks_for_nothing() -> None:
    assert meant("zookeeper.connect=\nlog.dirs=\nnode.id=\nadvertised.listeners=").configs == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("listeners=9092", "'9092' is no listener; expected NAME://host:port"),
        ("listeners=PLAINTEXT://:99999", "with a port from 0 to 65535"),
        ("\nlog.dirs=/a,/b", "line 2: log.dirs=/a,/b: a node keeps everything in one directory"),
        ("log.dirs=/a\nmetadata.log.dir=/b", "everything is kept in one directory here"),
        ("super.users=alice", "super.users must be principals with ';' between them, such as User:alice;User:bob"),
        ("ssl.client.auth=maybe", "line 1: ssl.client.auth must be one of required, requested, none, not 'maybe'"),
        ("listener.name.x.num.partitions=1", "no setting of a listener has this name"),
        (
            LOOPBACK + "security.inter.broker.protocol=SSL",
            "which speaks no TLS: say CONTROLLER:SSL in",
        ),
        (
            LOOPBACK + "inter.broker.listener.name=SSL",
            "line 3: inter.broker.listener.name=SSL: nodes meet",
        ),
        ("ssl.engine.factory.class=x", "a class of Java cannot run here"),
        ("zookeeper.connect=localhost:2181", "there is no ZooKeeper here: set process.roles=broker,controller"),
        ("create.topic.policy.class.name=x", "a class of Java cannot run here"),
        ("remote.log.storage.system.enable=true", "there is no remote storage"),
        ("node.id=one", "a node id goes from 0 to"),
        ("node.id=1\nbroker.id=2", "line 2: broker.id=2: and node.id is 1"),
        ("process.roles=witness", "expected broker,controller"),
        ("controller.quorum.voters=localhost:9093", "'localhost:9093' is no voter; expected id@host:port"),
        ("# settings\nnum.partitions=none", "line 2: num.partitions must be"),
        ("log.retention.hours=1.5", "line 1: log.retention.hours must be"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_line(text: str, expected: str) -> None:
    assert expected in refusal_of(text)


KAFKAS_SASL_SSL_WITH_PEM = """
listeners=SASL_SSL://localhost:9092,CONTROLLER://localhost:9093
advertised.listeners=SASL_SSL://localhost:9092
controller.listener.names=CONTROLLER
listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:SSL
security.inter.broker.protocol=SASL_SSL
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256
sasl.enabled.mechanisms=SCRAM-SHA-256
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=\\
   org.apache.kafka.common.security.scram.ScramLoginModule required \\
   username="admin" \\
   password="admin-secret";
ssl.keystore.type=PEM
ssl.keystore.location=/var/private/ssl/server.pem
ssl.key.password=test1234
ssl.truststore.type=PEM
ssl.truststore.location=/var/private/ssl/ca.pem
ssl.client.auth=none
ssl.endpoint.identification.algorithm=
ssl.secure.random.implementation=SHA1PRNG
"""


def test_what_kafkas_pages_say_of_sasl_and_pem_files() -> None:
    said = meant(KAFKAS_SASL_SSL_WITH_PEM)
    plans = planned(said.configs)
    (listener,) = plans.clients
    assert (listener.name, listener.protection.security.mechanisms) == ("SASL_SSL", ("SCRAM-SHA-256",))
    assert listener.protection.tls is not None
    assert listener.protection.tls.key_password == "test1234"
    assert plans.nodes.security.client_auth is ClientAuth.REQUIRED
    assert not plans.nodes.expects_host
    assert "admin-secret" not in repr((said, plans)), "neither in the log nor in an error"


def test_metadata_in_the_one_directory_is_as_it_should_be() -> None:
    assert meant("log.dirs=/a\nmetadata.log.dir=/a").data_dir == Path("/a")


def test_plain_words_between_nodes_are_as_it_should_be() -> None:
    assert meant("security.inter.broker.protocol=PLAINTEXT").configs == {}


def test_remote_storage_that_is_off_is_as_it_should_be() -> None:
    assert meant("remote.log.storage.system.enable=false").notes


def test_every_setting_of_kafka_is_used_or_explained() -> None:
    """Nothing of Kafka's may be called no setting of Kafka."""
    known = {*NODE_CONFIGS, *_OF_THE_PLACE}
    rest = [name for name in KAFKA_NAMES if name not in known]
    assert [name for name in rest if not reason_against(name, "x") and not reason_without(name)] == []
    assert len(KAFKA_NAMES) == 360
