"""Every API in every version, asked for by people with all kinds of rights: over a real socket, of a node with rules.

What each takes is written down here once more, by hand and from Kafka's documentation: an API without a row fails.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.model.errors import ErrorCode
from headrace.servers.kafka.apis import SERVED
from headrace.wire.api import APIS, ApiKey
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.clients.test_every_api_in_every_version import error_codes, request_of
from tests.unit.servers.ruled_server import (
    ALL,
    DENY,
    EVERY_KIND,
    GROUP,
    READ,
    TOPIC,
    TRANSACTION,
    WRITE,
    rule,
    ruled_server,
)

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.model.names import TopicId
    from tests.unit.servers.living_server import Client
    from tests.unit.servers.ruled_server import RuledServer

T = ErrorCode.TOPIC_AUTHORIZATION_FAILED
G = ErrorCode.GROUP_AUTHORIZATION_FAILED
C = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
X = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
REFUSALS = {T, G, C, X}

READER, WRITER, ROOT = "reader", "writer", "root"
PEOPLE = ("nobody", "stranger", READER, WRITER, "denied", ROOT)
"""Without any rule; with all rights on other things; with one right on everything; with all rights, and denied them; a
super user."""

RULES = [
    *(rule("stranger", ALL, kind, "elsewhere") for kind in (TOPIC, GROUP, TRANSACTION)),
    *(rule(READER, READ, kind) for kind in EVERY_KIND),
    *(rule(WRITER, WRITE, kind) for kind in EVERY_KIND),
    *(rule("denied", ALL, kind, permission=permission) for kind in EVERY_KIND for permission in (3, DENY)),
]


class Row(NamedTuple):
    codes: frozenset[ErrorCode]
    """One of these is said to whoever may not."""
    may: frozenset[str]
    """Who may, besides the super user."""
    may_some: frozenset[str] = frozenset()
    """Who may do a part of what is asked for."""
    is_silent: bool = False
    """Whoever may not sees less, and no error."""


def row(*codes: ErrorCode, may: tuple[str, ...] = ()) -> Row:
    return Row(frozenset(codes), frozenset(may))


def needs_read(*codes: ErrorCode) -> Row:
    return row(*codes, may=(READER,))


def needs_write(*codes: ErrorCode) -> Row:
    return row(*codes, may=(WRITER,))


def needs_describe(*codes: ErrorCode) -> Row:
    """Who may read or write may see."""
    return row(*codes, may=(READER, WRITER))


OPEN = row(may=PEOPLE)
WHAT_IS_THERE = Row(frozenset({T}), frozenset(), may_some=frozenset({READER, WRITER}))
LISTED = Row(frozenset(), frozenset((READER, WRITER)), is_silent=True)

ROWS = {
    ApiKey.PRODUCE: needs_write(T),
    ApiKey.FETCH: needs_read(T),
    ApiKey.LIST_OFFSETS: needs_describe(T),
    ApiKey.METADATA: needs_describe(T),
    ApiKey.OFFSET_COMMIT: needs_read(G),
    ApiKey.OFFSET_FETCH: needs_describe(G),
    ApiKey.FIND_COORDINATOR: needs_describe(G),
    ApiKey.JOIN_GROUP: needs_read(G),
    ApiKey.HEARTBEAT: needs_read(G),
    ApiKey.LEAVE_GROUP: needs_read(G),
    ApiKey.SYNC_GROUP: needs_read(G),
    ApiKey.DESCRIBE_GROUPS: needs_describe(G),
    ApiKey.LIST_GROUPS: LISTED,
    ApiKey.SASL_HANDSHAKE: OPEN,
    ApiKey.SASL_AUTHENTICATE: OPEN,
    ApiKey.API_VERSIONS: OPEN,
    ApiKey.CREATE_TOPICS: row(T),
    ApiKey.DELETE_TOPICS: row(T),
    ApiKey.DELETE_RECORDS: row(T),
    ApiKey.INIT_PRODUCER_ID: row(C, may=("stranger", WRITER)),  # to write to any topic is enough
    ApiKey.OFFSET_FOR_LEADER_EPOCH: needs_describe(T),
    ApiKey.ADD_PARTITIONS_TO_TXN: needs_write(X),
    ApiKey.ADD_OFFSETS_TO_TXN: row(X, G),  # to write under the id, and to read as the group
    ApiKey.END_TXN: needs_write(X),
    ApiKey.WRITE_TXN_MARKERS: row(C),
    ApiKey.TXN_OFFSET_COMMIT: row(X, G),
    ApiKey.DESCRIBE_ACLS: needs_describe(C),
    ApiKey.CREATE_ACLS: row(C),
    ApiKey.DELETE_ACLS: row(C),
    ApiKey.DESCRIBE_CONFIGS: row(T),
    ApiKey.ALTER_CONFIGS: row(T),
    ApiKey.ALTER_REPLICA_LOG_DIRS: row(C),
    ApiKey.DESCRIBE_LOG_DIRS: needs_describe(C),
    ApiKey.CREATE_PARTITIONS: row(T),
    ApiKey.DELETE_GROUPS: row(G),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: row(T),
    ApiKey.ELECT_LEADERS: row(C),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: row(C),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: needs_describe(C),
    ApiKey.OFFSET_DELETE: row(G),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: needs_describe(C),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: row(C),
    ApiKey.DESCRIBE_QUORUM: needs_describe(C),
    ApiKey.UPDATE_FEATURES: row(C),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: row(C),
    ApiKey.ALTER_CLIENT_QUOTAS: row(C),
    ApiKey.DESCRIBE_CLUSTER: OPEN,
    ApiKey.DESCRIBE_PRODUCERS: needs_read(T),
    ApiKey.UNREGISTER_BROKER: row(C),
    ApiKey.DESCRIBE_TRANSACTIONS: needs_describe(X),
    ApiKey.LIST_TRANSACTIONS: LISTED,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: needs_read(G),
    ApiKey.CONSUMER_GROUP_DESCRIBE: needs_describe(G),
    ApiKey.LIST_CONFIG_RESOURCES: row(C),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: needs_describe(T),
    ApiKey.ADD_RAFT_VOTER: row(C),
    ApiKey.REMOVE_RAFT_VOTER: row(C),
    ApiKey.DRAIN_NODE: row(C),
    ApiKey.PLAN_REBALANCE: needs_describe(C),
    ApiKey.SCRUB_LOGS: row(C),
}

OTHERWISE = {
    # Up to version 3 it creates what is missing, which takes another right.
    **{(ApiKey.METADATA, version): WHAT_IS_THERE for version in range(4)},
    # Later, nodes ask for it, for several transactions.
    **{(ApiKey.ADD_PARTITIONS_TO_TXN, version): row(C) for version in (4, 5)},
    # Before version 3 it has no place for an error.
    **{(ApiKey.DESCRIBE_LOG_DIRS, version): LISTED for version in (1, 2)},
}
LOOKED_AT_FIRST = ErrorCode.UNKNOWN_TOPIC_ID
"""An id that means nothing is told from one that somebody may not see, as in Kafka."""


def test_every_api_has_a_row() -> None:
    assert set(SERVED) <= set(ROWS)


def item_codes(answer: object) -> list[int]:
    """Of what an answer lists, innermost alone."""
    found = []
    for name in getattr(answer, "__dataclass_fields__", {}):
        value = getattr(answer, name)
        for item in value if isinstance(value, list) else ():
            inner = item_codes(item)
            own = getattr(item, "error_code", getattr(item, "partition_error_code", None))
            found += inner or ([] if own is None else [own])
    return found


def things_in(answer: Any) -> list[object]:
    lists = [value for name in answer.__dataclass_fields__ if isinstance(value := getattr(answer, name), list)]
    return [item for items in lists for item in items if hasattr(item, "__dataclass_fields__")]


def said_wrongly(key: ApiKey, version: int, person: str, answer: object) -> str:
    """Empty if the answer is as it should be."""
    expected = OTHERWISE.get((key, version), ROWS[key])
    codes = set(error_codes(answer))
    if person == ROOT or person in expected.may:
        return f"refused: {codes}" if codes & REFUSALS else ""
    if expected.is_silent:
        return f"shown: {answer}" if things_in(answer) else ""
    if not codes & expected.codes or not codes <= {*expected.codes, LOOKED_AT_FIRST, ErrorCode.NONE}:
        return f"said {codes}: {answer}"
    is_done = ErrorCode.NONE in item_codes(answer)
    return f"wrongly refused or not: {answer}" if is_done != (person in expected.may_some) else ""


def test_every_api_in_every_version_asks_for_its_rights(tmp_path: Path) -> None:
    async def ask_all(server: RuledServer, clients: dict[str, Client], topic_id: TopicId) -> list[str]:
        wrong = []
        for key in SERVED:
            for version in range(APIS[key].version_min, APIS[key].version_max + 1):
                for person, client in clients.items():
                    answer = await client.ask(request_of(key, version, "events", topic_id), version)
                    if problem := said_wrongly(key, version, person, answer):
                        wrong.append(f"{key.name} {version} by {person}: {problem}")
                if key is ApiKey.DELETE_ACLS:
                    await server.allow(*RULES)
        return wrong

    async def scenario() -> list[str]:
        async with ruled_server(tmp_path) as server:
            await server.living.create_topic("events")
            await server.allow(*RULES)
            clients = {person: await server.connect(person) for person in PEOPLE}
            for kind in (0, 1):  # the coordinators of groups and transactions
                assert not (await clients[ROOT].ask(FindCoordinatorRequest("any", kind), 3)).error_code
            topic = server.node.image.topic_named("events")
            assert topic is not None
            return await ask_all(server, clients, topic.topic_id)

    wrong = asyncio.run(scenario())
    assert not wrong, "\n".join(wrong)
