"""Access rules in a cluster of three nodes whose clients log in: made by one client, obeyed towards others."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.clients.nodes import PATIENCE_S, new_name
from tests.clients.security.secured_clusters import ALICE, SecuredCluster, SecuredProcesses
from tests.docs.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.docs.told_blocks import ToldBlocks

pytest_plugins = ["tests.docs.told_blocks"]

BOB, BOBS = "bob", "can-he-fix-it-yes-he-can"
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.BROKER
READ, WRITE, CREATE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE
REFUSED = KafkaError.TOPIC_AUTHORIZATION_FAILED


@contextmanager
def ruled_cluster(home: Path, settings: dict[str, str]) -> Iterator[SecuredProcesses]:
    """Alice is a super user, and has made Bob a user."""
    secured = SecuredCluster(home)
    configs = secured.for_clients | secured.by_certificates | settings | {"super.users": f"User:{ALICE}"}
    with SecuredProcesses(home, configs, secured.client) as cluster:
        password = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        made = cluster.admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion(BOB, password, BOBS.encode())], request_timeout=PATIENCE_S
        )
        made[BOB].result(PATIENCE_S)
        yield cluster


def as_bob(cluster: SecuredProcesses, **more: Any) -> dict[str, Any]:
    return {**cluster.client, "sasl.username": BOB, "sasl.password": BOBS, "socket.timeout.ms": 10_000, **more}


def rule(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    who, permission = f"User:{BOB}", AclPermissionType.ALLOW
    return AclBinding(kind, name, ResourcePatternType.LITERAL, who, "*", operation, permission)


def allow(cluster: SecuredProcesses, *rules: AclBinding) -> None:
    for made in cluster.admin.create_acls(list(rules), request_timeout=PATIENCE_S).values():
        made.result(PATIENCE_S)


def revoke(cluster: SecuredProcesses, taken: AclBinding) -> None:
    meant = AclBindingFilter(
        taken.restype,
        taken.name,
        taken.resource_pattern_type,
        taken.principal,
        taken.host,
        taken.operation,
        taken.permission_type,
    )
    (gone,) = cluster.admin.delete_acls([meant], request_timeout=PATIENCE_S).values()
    assert gone.result(PATIENCE_S) == [taken]


def error_of_write(producer: Producer, topic: str) -> int | None:
    told: list[Any] = []
    producer.produce(topic, b"value", on_delivery=lambda error, _: told.append(error))
    assert producer.flush(PATIENCE_S) == 0
    return None if told[0] is None else int(told[0].code())


def until_refused(consumer: Consumer, code: int) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        message = consumer.poll(0.5)
        if message is not None and message.error() is not None and message.error().code() == code:
            return
    raise AssertionError(f"never told {code}")


def until_read(consumer: Consumer) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            return
    raise AssertionError("nothing came")


def test_rights_come_and_go_while_clients_run(tmp_path: Path) -> None:
    with ruled_cluster(tmp_path, {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.X"}) as cluster:
        topic, group = cluster.create_topic(new_name("orders"), [[1, 2, 3], [2, 3, 1], [3, 1, 2]]), new_name("group")
        others = AdminClient(as_bob(cluster))
        assert topic not in others.list_topics(timeout=PATIENCE_S).topics
        with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
            raise KafkaException(others.list_topics(topic, timeout=PATIENCE_S).topics[topic].error)

        writes = rule(TOPIC, topic, WRITE)
        producer = Producer(as_bob(cluster, **{"enable.idempotence": False, "message.timeout.ms": 10_000}))
        assert error_of_write(producer, topic) == REFUSED
        allow(cluster, writes)
        producer = Producer(as_bob(cluster))  # by default an idempotent one, which takes no more than that
        assert error_of_write(producer, topic) is None

        reads, belongs = rule(TOPIC, topic, READ), rule(GROUP, group, READ)
        consumer = Consumer(as_bob(cluster, **{"group.id": group, "auto.offset.reset": "earliest"}))
        consumer.subscribe([topic])
        until_refused(consumer, KafkaError.GROUP_AUTHORIZATION_FAILED)
        consumer.close()
        allow(cluster, reads, belongs)
        consumer = Consumer(as_bob(cluster, **{"group.id": group, "auto.offset.reset": "earliest"}))
        consumer.subscribe([topic])
        until_read(consumer)

        revoke(cluster, reads)
        assert error_of_write(producer, topic) is None
        until_refused(consumer, REFUSED)
        revoke(cluster, writes)
        assert error_of_write(producer, topic) == REFUSED
        consumer.close()
        shown = others.describe_acls(AclBindingFilter(*_ANYTHING), request_timeout=PATIENCE_S)
        assert shown.result(PATIENCE_S) == []  # librdkafka does not pass on that it was refused
        shown = cluster.admin.describe_acls(AclBindingFilter(*_ANYTHING), request_timeout=PATIENCE_S)
        assert shown.result(PATIENCE_S) == [belongs]


_ANYTHING = (
    ResourceType.ANY,
    None,
    ResourcePatternType.ANY,
    None,
    None,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


def test_rules_as_the_page_has_them(tmp_path: Path, told_blocks: ToldBlocks) -> None:
    said = dict(line.split("=", 1) for line in told_blocks.take("authorizer").text.splitlines())
    with ruled_cluster(tmp_path, {"authorizer.class.name": said["authorizer.class.name"]}) as cluster:
        topics = [cluster.create_topic(name, [[1, 2, 3]]) for name in ("orders", "bob-own", "bob-payroll")]
        settings = tmp_path / "admin.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in cluster.client.items()))
        settings.chmod(0o600)
        terminal = Terminal(tmp_path / "home", cluster.bootstrap_servers)
        terminal.environment["HEADRACE_COMMAND_CONFIG"] = str(settings)
        *commands, listing, removal = told_blocks.take("$ headrace acls add").commands
        terminal.follow_commands(commands)
        bob = AdminClient(as_bob(cluster))
        assert topics[:2] == ["orders", "bob-own"]
        seen = [name for name in bob.list_topics(timeout=PATIENCE_S).topics if not name.startswith("__")]
        assert sorted(seen) == ["bob-own", "orders"]
        shown = terminal.follow_commands([listing])
        assert "bob-payroll" in shown
        assert "bob-" in shown
        terminal.follow_commands([removal])
        assert not bob.list_topics(timeout=PATIENCE_S).topics
