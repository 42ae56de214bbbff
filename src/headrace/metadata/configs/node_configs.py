"""The settings of a node (Kafka's "broker" configs): its own, and the defaults that it gives to topics.

`NODE_CONFIGS` is what `headrace serve` accepts and DescribeConfigs of a broker shows. What a topic setting names as its
synonyms is added from the topic table, so that a bound or a default is written once.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.metadata.configs.config_keys import INT_MAX, LONG_MAX, ConfigKey, ConfigType, Synonym
from headrace.metadata.configs.listener_configs import LISTENER_CONFIGS, own_config_key
from headrace.metadata.configs.topic_configs import DAY_MS, MINUTE_MS, TOPIC_CONFIGS, KiB, MiB
from headrace.metadata.liveness import SESSION_MS
from headrace.model.errors import ErrorCode, Refusal

IDENTITY_CONFIGS = (
    ConfigKey("broker.rack", ConfigType.STRING, None, "Where the node stands; replicas are kept on different racks."),
    ConfigKey("log.dirs", ConfigType.LIST, None, "The directory that holds everything the node stores."),
    ConfigKey("node.id", ConfigType.INT, None, "The node's number in the cluster.", low=0),
)
"""What a node is rather than how it behaves: it is told by flags, and shown here because tools look for it."""

IDENTITY_FLAGS = {
    "broker.rack": "--rack",
    "log.dirs": "--data-dir",
    "node.id": "--node-id",
}

BEHAVIOUR_CONFIGS = (
    ConfigKey(
        "allow.everyone.if.no.acl.found",
        ConfigType.BOOLEAN,
        "false",
        "Whether everybody may use what no access rule is about, where rules are obeyed.",
        is_dynamic=False,
    ),
    ConfigKey(
        "authorizer.class.name",
        ConfigType.STRING,
        "",
        "Whether access rules are obeyed: empty is no; yes is whatever Kafka's users write here, such as "
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer. Then nobody may do what no rule allows. "
        "The same on all nodes.",
        is_dynamic=False,
    ),
    ConfigKey(
        "auto.create.topics.enable",
        ConfigType.BOOLEAN,
        "true",
        "Whether a topic is created when a client first asks for it.",
    ),
    ConfigKey(
        "auto.leader.rebalance.enable",
        ConfigType.BOOLEAN,
        "true",
        "Whether partitions are given back to their preferred leaders.",
    ),
    ConfigKey(
        "broker.heartbeat.interval.ms",
        ConfigType.INT,
        "400",
        "How often the node tells the controller that it is there.",
        low=10,
        is_dynamic=False,
    ),
    ConfigKey(
        "broker.session.timeout.ms",
        ConfigType.INT,
        str(SESSION_MS),
        "After three fifths of it without an answer from a controller the node takes no writes until it is heard; "
        "after all of it others take over.",
        low=100,
        is_dynamic=False,
    ),
    ConfigKey(
        "connections.max.idle.ms",
        ConfigType.LONG,
        str(10 * MINUTE_MS),
        "How long a connection may be silent before it is closed; -1 is forever.",
        low=-1,
        is_dynamic=False,
    ),
    ConfigKey(
        "controller.quorum.election.timeout.ms",
        ConfigType.INT,
        "1000",
        "How long voters wait for a silent controller before they elect another, at least; at most twice as long.",
        low=50,
        is_dynamic=False,
    ),
    ConfigKey(
        "controller.quota.window.num",
        ConfigType.INT,
        "11",
        "The same as quota.window.num, for partitions that are created and deleted.",
        low=1,
        high=1000,
        is_dynamic=False,
    ),
    ConfigKey(
        "controller.quota.window.size.seconds",
        ConfigType.INT,
        "1",
        "The same as quota.window.size.seconds, for partitions that are created and deleted.",
        low=1,
        high=3600,
        is_dynamic=False,
    ),
    ConfigKey(
        "default.replication.factor",
        ConfigType.INT,
        "1",
        "The replicas of a topic that is created without saying how many.",
        low=1,
        high=32_767,
    ),
    ConfigKey(
        "delete.topic.enable",
        ConfigType.BOOLEAN,
        "true",
        "Whether clients may delete topics.",
    ),
    ConfigKey(
        "fetch.max.bytes",
        ConfigType.INT,
        str(55 * MiB),
        "The most that one fetch is answered with, whatever the client asks for.",
        low=1024,
        is_dynamic=False,
    ),
    ConfigKey(
        "follower.replication.throttled.rate",
        ConfigType.LONG,
        str(LONG_MAX),
        "The most bytes per second that the node fetches for the replicas in follower.replication.throttled.replicas.",
        low=0,
    ),
    ConfigKey(
        "group.consumer.heartbeat.interval.ms",
        ConfigType.INT,
        "2000",
        "How often members of groups of the newer protocol report; they learn of a rebalance when they do.",
        low=1,
    ),
    ConfigKey(
        "group.consumer.max.heartbeat.interval.ms",
        ConfigType.INT,
        "15000",
        "The most that a group of the newer protocol may have as its own heartbeat interval.",
        low=1,
        is_dynamic=False,
    ),
    ConfigKey(
        "group.consumer.max.session.timeout.ms",
        ConfigType.INT,
        "60000",
        "The most that a group of the newer protocol may have as its own session timeout.",
        low=1,
        is_dynamic=False,
    ),
    ConfigKey(
        "group.consumer.max.size",
        ConfigType.INT,
        str(INT_MAX),
        "The most members of a group of the newer protocol.",
        low=1,
    ),
    ConfigKey(
        "group.consumer.min.heartbeat.interval.ms",
        ConfigType.INT,
        "2000",
        "The least that a group of the newer protocol may have as its own heartbeat interval.",
        low=1,
        is_dynamic=False,
    ),
    ConfigKey(
        "group.consumer.min.session.timeout.ms",
        ConfigType.INT,
        "45000",
        "The least that a group of the newer protocol may have as its own session timeout.",
        low=1,
        is_dynamic=False,
    ),
    ConfigKey(
        "group.consumer.session.timeout.ms",
        ConfigType.INT,
        "45000",
        "How long a member of a group of the newer protocol may be silent before it is removed.",
        low=1,
    ),
    ConfigKey(
        "group.initial.rebalance.delay.ms",
        ConfigType.INT,
        "3000",
        "How long the first member of an empty classic group waits for others, so that they share one rebalance.",
        low=0,
    ),
    ConfigKey(
        "group.max.session.timeout.ms",
        ConfigType.INT,
        str(30 * MINUTE_MS),
        "The longest session that a member of a classic group may ask for.",
        low=1,
    ),
    ConfigKey(
        "group.max.size",
        ConfigType.INT,
        str(INT_MAX),
        "The most members of a classic group.",
        low=1,
    ),
    ConfigKey(
        "group.min.session.timeout.ms",
        ConfigType.INT,
        "6000",
        "The shortest session that a member of a classic group may ask for.",
        low=1,
    ),
    ConfigKey(
        "headrace.audit.enable",
        ConfigType.STRING,
        "auto",
        "Whether the node writes down who did what, in audit.log of its data directory and in the topic __audit. auto "
        "is yes as soon as a listener asks its clients who they are, or access rules are on.",
        allowed=("auto", "true", "false"),
        is_dynamic=False,
    ),
    ConfigKey(
        "headrace.audit.file.max.bytes",
        ConfigType.LONG,
        str(64 * MiB),
        "How large audit.log may become before it is renamed to audit.log.1, and another one begins.",
        low=64 * KiB,
        is_dynamic=False,
    ),
    ConfigKey(
        "headrace.audit.files",
        ConfigType.INT,
        "8",
        "How many files of the audit are kept, the one that is written among them; the oldest goes.",
        low=1,
        high=1000,
        is_dynamic=False,
    ),
    ConfigKey(
        "headrace.audit.topic.enable",
        ConfigType.BOOLEAN,
        "true",
        "Whether what is written to audit.log goes to the topic __audit as well.",
        is_dynamic=False,
    ),
    ConfigKey(
        "headrace.election.wait.ms",
        ConfigType.LONG,
        "10000",
        "After all who were in sync have crashed: for how long those are waited for "
        "that are not back yet, before the longest log of the others leads.",
        low=0,
    ),
    ConfigKey(
        "headrace.scrub.interval.ms",
        ConfigType.LONG,
        str(7 * DAY_MS),
        "How often every closed segment is read and checked against its CRCs.",
        low=1,
    ),
    ConfigKey(
        "headrace.scrub.max.bytes.per.second",
        ConfigType.LONG,
        str(10 * MiB),
        "How fast closed segments are read to be checked; 0 checks nothing but what an operator asks for.",
        low=0,
    ),
    ConfigKey(
        "leader.imbalance.check.interval.seconds",
        ConfigType.LONG,
        "300",
        "How often the controller looks for partitions that others than their preferred leaders lead.",
        low=1,
    ),
    ConfigKey(
        "leader.imbalance.per.broker.percentage",
        ConfigType.INT,
        "10",
        "So much of what a node should lead may be led elsewhere; a leader that moves costs its clients a moment.",
        low=0,
        high=100,
    ),
    ConfigKey(
        "leader.replication.throttled.rate",
        ConfigType.LONG,
        str(LONG_MAX),
        "The most bytes per second that the node sends for the replicas in leader.replication.throttled.replicas.",
        low=0,
    ),
    ConfigKey(
        "log.cleaner.backoff.ms",
        ConfigType.LONG,
        "15000",
        "How long the node waits before it looks again for logs that are to be compacted; 100 ms at least.",
        low=0,
    ),
    ConfigKey(
        "log.cleaner.dedupe.buffer.size",
        ConfigType.LONG,
        str(128 * MiB),
        "The memory for the keys of the log that is being compacted, some 32 bytes each; with more keys than fit, "
        "compaction takes several passes.",
        low=KiB,
    ),
    ConfigKey(
        "log.cleaner.enable",
        ConfigType.BOOLEAN,
        "true",
        "Whether logs are compacted at all.",
    ),
    ConfigKey(
        "log.cleaner.io.buffer.load.factor",
        ConfigType.DOUBLE,
        "0.9",
        "How full the memory for keys may become.",
        low=0,
        high=1,
        has_effect=False,
    ),
    ConfigKey(
        "log.cleaner.io.buffer.size",
        ConfigType.INT,
        str(512 * KiB),
        "The memory for reading and writing while a log is compacted.",
        low=0,
        has_effect=False,
    ),
    ConfigKey(
        "log.cleaner.io.max.bytes.per.second",
        ConfigType.DOUBLE,
        "1.7976931348623157E308",
        "The most bytes that compaction reads in a second, so that the disk has time for others.",
        low=1,
    ),
    ConfigKey(
        "log.cleaner.threads",
        ConfigType.INT,
        "1",
        "How many logs are compacted at the same time.",
        low=1,
        has_effect=False,
    ),
    ConfigKey(
        "log.retention.check.interval.ms",
        ConfigType.LONG,
        str(5 * MINUTE_MS),
        "How often the node looks for segments that have expired.",
        low=1,
        is_dynamic=False,
    ),
    ConfigKey(
        "max.connection.creation.rate",
        ConfigType.INT,
        str(INT_MAX),
        "The most connections that the node takes in a second, of all clients; more of them wait, and are closed if "
        "that would be for more than five seconds. Quotas limit those of an address.",
        low=1,
    ),
    ConfigKey(
        "max.connections",
        ConfigType.INT,
        "10000",
        "The most connections of a listener at a time; each costs memory. One more takes the place of one that never "
        "asked for anything, or of one of the host that has most, or is closed at once.",
        low=1,
        is_dynamic=False,
    ),
    ConfigKey(
        "max.connections.per.ip",
        ConfigType.INT,
        str(INT_MAX),
        "The most connections of one IPv4 address, or of one /64 network of IPv6; one more is closed at once.",
        low=0,
        is_dynamic=False,
    ),
    ConfigKey(
        "max.connections.per.ip.overrides",
        ConfigType.LIST,
        "",
        "The same for some addresses, as address:count, separated by commas.",
        is_dynamic=False,
        element=r"[0-9A-Za-z.:\[\]%-]+:[0-9]{1,9}",
        element_words="address:count",
    ),
    ConfigKey(
        "max.incremental.fetch.session.cache.slots",
        ConfigType.INT,
        "1000",
        "The most fetch sessions that are remembered; clients beyond that send their partitions in full.",
        low=0,
        is_dynamic=False,
    ),
    ConfigKey(
        "num.partitions",
        ConfigType.INT,
        "1",
        "The partitions of a topic that is created without saying how many.",
        low=1,
        high=10_000,
    ),
    ConfigKey(
        "offset.metadata.max.bytes",
        ConfigType.INT,
        "4096",
        "The longest note that a consumer may keep with an offset.",
        low=0,
    ),
    ConfigKey(
        "offsets.retention.check.interval.ms",
        ConfigType.LONG,
        str(10 * MINUTE_MS),
        "How often the node looks for offsets that have expired.",
        low=1,
        is_dynamic=False,
    ),
    ConfigKey(
        "offsets.retention.minutes",
        ConfigType.INT,
        str(7 * DAY_MS // MINUTE_MS),
        "How long offsets are kept after the last member has left their group.",
        low=1,
    ),
    ConfigKey(
        "offsets.topic.num.partitions",
        ConfigType.INT,
        "16",
        "The partitions of __consumer_offsets when it is created; groups are spread over them.",
        low=1,
        high=10_000,
        is_dynamic=False,
    ),
    ConfigKey(
        "producer.id.expiration.ms",
        ConfigType.INT,
        str(DAY_MS),
        "How long a partition remembers the sequence of an idempotent producer that has gone silent.",
        low=1,
        is_dynamic=False,
    ),
    ConfigKey(
        "queued.max.request.bytes",
        ConfigType.LONG,
        str(128 * MiB),
        "The most memory for requests of more than 64 KiB that are arriving or wait, of all clients together; never "
        "less than one request of socket.request.max.bytes and 24 MiB for others. -1 is without limit.",
        low=-1,
        is_dynamic=False,
    ),
    ConfigKey(
        "quota.window.num",
        ConfigType.INT,
        "11",
        "Over how many samples the rates of quotas are measured: a client that was silent for all of them may make up "
        "for as much at once.",
        low=1,
        high=1000,
        is_dynamic=False,
    ),
    ConfigKey(
        "quota.window.size.seconds",
        ConfigType.INT,
        "1",
        "How long one sample is; one answer to a consumer with a quota has no more than flows in that time.",
        low=1,
        high=3600,
        is_dynamic=False,
    ),
    ConfigKey(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        ConfigType.LONG,
        str(LONG_MAX),
        "How fast replicas move between directories of a node, of which there is one.",
        low=0,
        has_effect=False,
    ),
    ConfigKey(
        "replica.lag.time.max.ms",
        ConfigType.LONG,
        "10000",
        "A follower that has not caught up for so long leaves the in-sync set; producers with acks=all wait that long.",
        low=100,
    ),
    ConfigKey(
        "socket.request.max.bytes",
        ConfigType.INT,
        str(100 * MiB),
        "The largest request of a client that is read; a larger one closes the connection, and takes no memory.",
        low=1024,
        is_dynamic=False,
    ),
    ConfigKey(
        "super.users",
        ConfigType.STRING,
        "",
        "Who may do everything, whatever the access rules say: principals as User:alice;User:bob.",
        element=r"\s*(?:[^\s:;]+:[^;]*[^\s;]\s*(?:;\s*|$))*",
        element_words="principals with ';' between them, such as User:alice;User:bob",
        is_dynamic=False,
    ),
    ConfigKey(
        "transaction.max.timeout.ms",
        ConfigType.INT,
        str(15 * MINUTE_MS),
        "The longest that a producer may ask its transactions to stay open.",
        low=1,
    ),
    ConfigKey(
        "transaction.state.log.num.partitions",
        ConfigType.INT,
        "16",
        "The partitions of __transaction_state when it is created; transactional ids are spread over them.",
        low=1,
        high=10_000,
        is_dynamic=False,
    ),
    ConfigKey(
        "transactional.id.expiration.ms",
        ConfigType.INT,
        str(7 * DAY_MS),
        "How long a transactional id is remembered after its last transaction.",
        low=1,
    ),
)


def _topic_defaults() -> list[ConfigKey]:
    """The node's side of every topic setting. Only the first name, in the topic's own unit, can change at run time."""
    return [
        _topic_default(topic_key, synonym) for topic_key in TOPIC_CONFIGS.values() for synonym in topic_key.synonyms
    ]


def _topic_default(topic_key: ConfigKey, synonym: Synonym) -> ConfigKey:
    is_first = synonym == topic_key.synonyms[0]
    is_last = synonym == topic_key.synonyms[-1]
    assert topic_key.default is not None
    if synonym.factor == 1:
        own_unit = replace(topic_key, name=synonym.name, synonyms=(), is_dynamic=is_first)
        return own_unit if is_last else replace(own_unit, default=None)
    return ConfigKey(
        synonym.name,
        ConfigType.INT,
        str(int(topic_key.default) // synonym.factor) if is_last else None,
        f"The same as {topic_key.synonyms[0].name} in a larger unit; used where that is not set.",
        low=topic_key.low,
        is_dynamic=False,
    )


NODE_CONFIGS: dict[str, ConfigKey] = {
    key.name: key
    for key in sorted(
        (
            *(replace(key, is_dynamic=False) for key in IDENTITY_CONFIGS),
            *BEHAVIOUR_CONFIGS,
            *LISTENER_CONFIGS.values(),
            *_topic_defaults(),
        ),
        key=lambda key: key.name,
    )
}
"""Sorted by name, which is the order in which they are shown."""


def node_config_key(name: str) -> ConfigKey:
    key = NODE_CONFIGS.get(name) or own_config_key(name)
    if key is None:
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            f"there is no broker setting {name[:200]!r}; `headrace configs describe --broker ID` lists them",
        )
    return key
