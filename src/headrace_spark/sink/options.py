"""The options of `format("headrace")` for writing: those of the official Kafka connector, and two of Delta's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from headrace.model.names import topic_name_problem
from headrace.wire.batches.header import Codec
from headrace_spark.kafka_options import INT32_MAX, PREFIX, parse_kafka_options
from headrace_spark.option_values import boolean, one_of, positive_number
from headrace_spark.sink.staging_names import application_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.client.connections.cluster import ClusterSettings

BATCH_BYTES: Final = 1_000_000  # just under Kafka's default max.message.bytes; larger ones gain nothing
DELIVERY_TIMEOUT_S: Final = 120.0  # Kafka's delivery.timeout.ms: how long trouble is ridden out before a task fails
REACH_FOR_S: Final = 30.0  # tasks and commits connect anew each time; a node that is just being restarted comes back

_REFUSED: Final = {
    "key.serializer": "keys are bytes or text",
    "value.serializer": "values are bytes or text",
    "transactional.id": "a streaming query has the id of its checkpoint; for a batch, set txnAppId and txnVersion",
    "partitioner.class": "give a column 'partition' instead",
    "interceptor.classes": "interceptors may change what is written",
}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What the options of a write say."""

    bootstrap_servers: str
    settings: ClusterSettings
    topic: str | None
    """Where all rows go; None if the column `topic` says it row by row."""
    codec: Codec
    batch_bytes_max: int
    transaction_timeout_ms: int | None
    """None: as long as the amount to publish needs."""
    application: tuple[str, int] | None
    """`txnAppId` and `txnVersion`: a batch write that is done once, however often it is repeated."""
    is_strict: bool
    """`txnStrict`: the application repeats no version but its last, so an older one is a mistake."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Raises ValueError, which says what is wrong and what was expected. The case of names does not matter."""
        given = {name.lower(): value for name, value in options.items()}
        kafka = {name.removeprefix(PREFIX): value for name, value in given.items() if name.startswith(PREFIX)}
        _refuse_what_cannot_be(kafka)
        cluster = parse_kafka_options(given)
        retry_for_s = DELIVERY_TIMEOUT_S
        if "delivery.timeout.ms" in kafka:
            retry_for_s = _number(kafka, "delivery.timeout.ms") / 1000
        return cls(
            cluster.bootstrap_servers,
            replace(cluster.settings, retry_for_s=retry_for_s, reach_for_s=min(retry_for_s, REACH_FOR_S)),
            _topic(given),
            _codec(kafka),
            _number(kafka, "batch.size") if "batch.size" in kafka else BATCH_BYTES,
            _number(kafka, "transaction.timeout.ms") if "transaction.timeout.ms" in kafka else None,
            _application(given),
            boolean("txnStrict", given.get("txnstrict", "false")),
        )

    @property
    def application_id(self) -> str:
        """The transactional id of a batch write."""
        assert self.application is not None
        return application_id(self.topic, self.application[0])


def _topic(given: Mapping[str, str]) -> str | None:
    topic = given.get("topic")
    if topic is None:
        return None
    topic = topic.strip()
    if problem := topic_name_problem(topic):
        raise ValueError(f"option 'topic' is {topic!r}, which is no topic's name: {problem}")
    return topic


def _codec(kafka: Mapping[str, str]) -> Codec:
    choices = tuple(codec.name.lower() for codec in Codec)
    return Codec[one_of("kafka.compression.type", kafka.get("compression.type", "none"), choices).upper()]


def _application(given: Mapping[str, str]) -> tuple[str, int] | None:
    name, version = given.get("txnappid"), given.get("txnversion")
    if name is None and version is None:
        return None
    if not name or version is None:
        raise ValueError("options 'txnAppId' and 'txnVersion' go together: who writes, and which of its writes this is")
    try:
        number = int(version)
    except ValueError:
        number = -1
    if number < 0:
        raise ValueError(
            f"option 'txnVersion' is {version!r}; expected is a number from 0 on that grows with each write"
        )
    return name, number


def _refuse_what_cannot_be(kafka: Mapping[str, str]) -> None:
    for name, reason in _REFUSED.items():
        if name in kafka:
            raise ValueError(f"option '{PREFIX}{name}' is not supported: {reason}")
    if (acks := kafka.get("acks", "all")).strip().lower() not in {"all", "-1"}:
        raise ValueError(f"option '{PREFIX}acks' is {acks!r}; only 'all' keeps what the sink promises, leave it out")
    if (wish := kafka.get("enable.idempotence", "true")).strip().lower() != "true":
        raise ValueError(f"option '{PREFIX}enable.idempotence' is {wish!r}; the sink always numbers its batches")


def _number(kafka: Mapping[str, str], name: str) -> int:
    return positive_number(PREFIX + name, kafka[name], INT32_MAX)
