"""The settings of a topic, under Kafka's names; our own begin with `headrace.`.

One table says everything about each: type, default, bounds, meaning, and the node's settings that change its default.
`TopicSettings` in `settings.py` has the same as typed values: what a partition uses while it runs.
"""

from __future__ import annotations

from headrace.metadata.configs.config_keys import LONG_MAX, ConfigKey, ConfigType, Synonym
from headrace.model.errors import ErrorCode, Refusal

KiB = 1024
MiB = 1024 * KiB
GiB = 1024 * MiB
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

DELETE = "delete"
COMPACT = "compact"
PRODUCER = "producer"
CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"
FLUSHED = "flushed"
WRITTEN = "written"
ALL_REPLICAS = "*"


THROTTLED_REPLICA = r"\*|[0-9]{1,10}:[0-9]{1,10}"


def _named(*names: str) -> tuple[Synonym, ...]:
    return tuple(Synonym(name) for name in names)


TOPIC_CONFIGS: dict[str, ConfigKey] = {
    key.name: key
    for key in (
        ConfigKey(
            "cleanup.policy",
            ConfigType.LIST,
            DELETE,
            "What happens to old records: 'delete' drops whole segments by age and size, 'compact' keeps the newest "
            "record of each key, both together do both, and an empty list keeps everything.",
            allowed=(COMPACT, DELETE),
            synonyms=_named("log.cleanup.policy"),
        ),
        ConfigKey(
            "compression.gzip.level",
            ConfigType.INT,
            "-1",
            "How hard to compress when compression.type is gzip, from 0 (not at all) to 9; -1 is the usual middle.",
            low=-1,
            high=9,
            synonyms=_named("compression.gzip.level"),
            has_effect=False,
        ),
        ConfigKey(
            "compression.lz4.level",
            ConfigType.INT,
            "9",
            "How hard to compress when compression.type is lz4, 1 to 17; the default means the fast mode.",
            low=1,
            high=17,
            synonyms=_named("compression.lz4.level"),
            has_effect=False,
        ),
        ConfigKey(
            "compression.type",
            ConfigType.STRING,
            PRODUCER,
            "How batches are stored: 'producer' keeps them as they came, 'uncompressed' opens them, "
            "any other name packs them anew if they came otherwise.",
            allowed=("uncompressed", "zstd", "lz4", "snappy", "gzip", PRODUCER),
            synonyms=_named("compression.type"),
        ),
        ConfigKey(
            "compression.zstd.level",
            ConfigType.INT,
            "3",
            "How hard to compress when compression.type is zstd.",
            low=-131_072,
            high=22,
            synonyms=_named("compression.zstd.level"),
            has_effect=False,
        ),
        ConfigKey(
            "delete.retention.ms",
            ConfigType.LONG,
            str(DAY_MS),
            "How long a compacted topic keeps the marks of deleted keys, so that slow readers still see them.",
            low=0,
            synonyms=_named("log.cleaner.delete.retention.ms"),
        ),
        ConfigKey(
            "file.delete.delay.ms",
            ConfigType.LONG,
            str(MINUTE_MS),
            "How long the file of a dropped segment stays on the disk.",
            low=0,
            synonyms=_named("log.segment.delete.delay.ms"),
            has_effect=False,
        ),
        ConfigKey(
            "flush.messages",
            ConfigType.LONG,
            str(LONG_MAX),
            "Flush after this many records. What is acknowledged when is decided by headrace.durability.",
            low=1,
            synonyms=_named("log.flush.interval.messages"),
            has_effect=False,
        ),
        ConfigKey(
            "flush.ms",
            ConfigType.LONG,
            str(LONG_MAX),
            "Flush after this time. What is acknowledged when is decided by headrace.durability.",
            low=0,
            synonyms=_named("log.flush.interval.ms"),
            has_effect=False,
        ),
        ConfigKey(
            "follower.replication.throttled.replicas",
            ConfigType.LIST,
            "",
            "The replicas (partition:node, or *) that fetch no faster than their node's "
            "follower.replication.throttled.rate while they are not in sync.",
            element=THROTTLED_REPLICA,
            element_words="partition:node, or *",
        ),
        ConfigKey(
            "headrace.durability",
            ConfigType.STRING,
            FLUSHED,
            "When a record counts as committed, so that it can be read and acks=all is answered: 'flushed' once it is "
            "on the device, 'written' once it is in the page cache, which a power cut can take back.",
            allowed=(FLUSHED, WRITTEN),
            synonyms=_named("headrace.durability"),
        ),
        ConfigKey(
            "headrace.validate.compressed",
            ConfigType.BOOLEAN,
            "true",
            "Whether compressed batches are unpacked when they arrive, to refuse those that no consumer could read. "
            "'false' saves that work and takes a producer's word. What is not compressed is always looked at.",
            synonyms=_named("headrace.validate.compressed"),
        ),
        ConfigKey(
            "index.interval.bytes",
            ConfigType.INT,
            str(4 * KiB),
            "Bytes of log between two entries of the offset index: fewer find a record faster, more need less space.",
            low=0,
            synonyms=_named("log.index.interval.bytes"),
        ),
        ConfigKey(
            "leader.replication.throttled.replicas",
            ConfigType.LIST,
            "",
            "The replicas (partition:node, or *) that, where they lead, are copied to others that are not in sync no "
            "faster than their node's leader.replication.throttled.rate.",
            element=THROTTLED_REPLICA,
            element_words="partition:node, or *",
        ),
        ConfigKey(
            "local.retention.bytes",
            ConfigType.LONG,
            "-2",
            "retention.bytes for what is kept here of a topic in tiered storage, which there is none of; -2: the same.",
            low=-2,
            synonyms=_named("log.local.retention.bytes"),
            has_effect=False,
        ),
        ConfigKey(
            "local.retention.ms",
            ConfigType.LONG,
            "-2",
            "retention.ms for what is kept here of a topic in tiered storage, which there is none of; -2: the same.",
            low=-2,
            synonyms=_named("log.local.retention.ms"),
            has_effect=False,
        ),
        ConfigKey(
            "max.compaction.lag.ms",
            ConfigType.LONG,
            str(LONG_MAX),
            "The longest time that a record may wait for compaction.",
            low=1,
            synonyms=_named("log.cleaner.max.compaction.lag.ms"),
        ),
        ConfigKey(
            "max.message.bytes",
            ConfigType.INT,
            str(MiB + 12),
            "The largest record batch that is taken, as it comes (compressed); a larger one is MESSAGE_TOO_LARGE.",
            low=0,
            synonyms=_named("message.max.bytes"),
        ),
        ConfigKey(
            "message.timestamp.after.max.ms",
            ConfigType.LONG,
            str(HOUR_MS),
            "How far ahead of the node's clock a record's own time may be; beyond that it is INVALID_TIMESTAMP.",
            low=0,
            synonyms=_named("log.message.timestamp.after.max.ms"),
        ),
        ConfigKey(
            "message.timestamp.before.max.ms",
            ConfigType.LONG,
            str(LONG_MAX),
            "How far behind the node's clock a record's own time may be; beyond that it is INVALID_TIMESTAMP.",
            low=0,
            synonyms=_named("log.message.timestamp.before.max.ms"),
        ),
        ConfigKey(
            "message.timestamp.type",
            ConfigType.STRING,
            CREATE_TIME,
            "Whose time a record carries: the producer's (CreateTime) or the node's on arrival (LogAppendTime).",
            allowed=(CREATE_TIME, LOG_APPEND_TIME),
            synonyms=_named("log.message.timestamp.type"),
        ),
        ConfigKey(
            "min.cleanable.dirty.ratio",
            ConfigType.DOUBLE,
            "0.5",
            "The share of a log that must be uncompacted before compaction is worth its reading and writing.",
            low=0,
            high=1,
            synonyms=_named("log.cleaner.min.cleanable.ratio"),
        ),
        ConfigKey(
            "min.compaction.lag.ms",
            ConfigType.LONG,
            "0",
            "The shortest time that a record stays uncompacted.",
            low=0,
            synonyms=_named("log.cleaner.min.compaction.lag.ms"),
        ),
        ConfigKey(
            "min.insync.replicas",
            ConfigType.INT,
            "2",
            "How many replicas must hold a record before acks=all is answered; "
            "a topic with fewer replicas than that needs all it has.",
            low=1,
            synonyms=_named("min.insync.replicas"),
        ),
        ConfigKey(
            "preallocate",
            ConfigType.BOOLEAN,
            "false",
            "Reserve a segment's space when it is created.",
            synonyms=_named("log.preallocate"),
            has_effect=False,
        ),
        ConfigKey(
            "remote.log.copy.disable",
            ConfigType.BOOLEAN,
            "false",
            "Whether nothing more is copied to tiered storage, which there is none of.",
            has_effect=False,
        ),
        ConfigKey(
            "remote.log.delete.on.disable",
            ConfigType.BOOLEAN,
            "false",
            "Whether what was copied to tiered storage, which there is none of, goes when that is turned off.",
            has_effect=False,
        ),
        ConfigKey(
            "remote.storage.enable",
            ConfigType.BOOLEAN,
            "false",
            "Whether old segments go to tiered storage. There is none, so 'true' is refused.",
        ),
        ConfigKey(
            "retention.bytes",
            ConfigType.LONG,
            "-1",
            "The size of a partition above which its oldest segments are dropped; -1 is no limit.",
            low=-1,
            synonyms=_named("log.retention.bytes"),
        ),
        ConfigKey(
            "retention.ms",
            ConfigType.LONG,
            str(7 * DAY_MS),
            "The age above which records are dropped, a segment at a time; -1 is no limit.",
            low=-1,
            synonyms=(
                Synonym("log.retention.ms"),
                Synonym("log.retention.minutes", MINUTE_MS),
                Synonym("log.retention.hours", HOUR_MS),
            ),
        ),
        ConfigKey(
            "segment.bytes",
            ConfigType.INT,
            str(GiB),
            "The size at which a new segment file is begun; smaller segments expire sooner and need more files.",
            low=MiB,
            synonyms=_named("log.segment.bytes"),
        ),
        ConfigKey(
            "segment.index.bytes",
            ConfigType.INT,
            str(10 * MiB),
            "The size of an index file at which a new segment is begun.",
            low=4,
            synonyms=_named("log.index.size.max.bytes"),
        ),
        ConfigKey(
            "segment.jitter.ms",
            ConfigType.LONG,
            "0",
            "The most that segment.ms is shortened by chance, so that partitions do not all roll at once.",
            low=0,
            synonyms=(Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", HOUR_MS)),
            has_effect=False,
        ),
        ConfigKey(
            "segment.ms",
            ConfigType.LONG,
            str(7 * DAY_MS),
            "The age at which a new segment is begun even if the old one is not full.",
            low=1,
            synonyms=(Synonym("log.roll.ms"), Synonym("log.roll.hours", HOUR_MS)),
        ),
        ConfigKey(
            "unclean.leader.election.enable",
            ConfigType.BOOLEAN,
            "false",
            "Whether a replica that lacks committed records may lead when no other is left. It matters only for topics "
            "with several replicas.",
            synonyms=_named("unclean.leader.election.enable"),
        ),
    )
}
"""Sorted by name, which is the order in which they are shown."""


def topic_config_key(name: str) -> ConfigKey:
    key = TOPIC_CONFIGS.get(name)
    if key is None:
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            f"there is no topic setting {name[:200]!r}; `headrace configs describe --topic NAME` lists them",
        )
    return key
