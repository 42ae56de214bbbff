"""The options that begin with `kafka.`: those of Kafka's consumer, as far as they mean something to our client.

Most do not (there is no group, no poll loop and nothing to deserialise here) and are accepted without effect, so that
programs move from the official connector as they are. What would change the outcome is honoured or refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.client.connections.cluster import ClusterSettings
from headrace.client.connections.view import parse_addresses
from headrace.client.reading.offsets import IsolationLevel
from headrace.client.security.files import BOOTSTRAP_SERVERS, client_settings, read_client_file
from headrace.client.security.secret_values import UnusableSettings
from headrace.client.security.settings import is_security_setting
from headrace_spark.option_values import one_of, positive_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.client.security.files import ClientFile
    from headrace.client.security.settings import ClientSecurity

PREFIX: Final = "kafka."
COMMAND_CONFIG: Final = "commandConfig"
"""A file of a Kafka client's settings. Each machine reads its own, so that no secret stands in a plan."""
SOFTWARE_NAME: Final = "headrace-spark"

# An answer of a partition. Kafka's consumer asks for 1 MiB; a task reads one partition alone, and fewer, larger answers
# are decoded faster. A batch that is larger still comes, alone.
PARTITION_FETCH_BYTES: Final = 4 << 20
FETCH_BYTES: Final = 50 << 20  # Kafka's fetch.max.bytes
INT32_MAX: Final = 2**31 - 1  # how the protocol counts bytes

# How long a task rides out trouble, such as a broker that restarts, before it fails and Spark tries it elsewhere.
RETRY_FOR_S: Final = 60.0

_REFUSED: Final = {
    "auto.offset.reset": "set the option 'startingOffsets' instead: Spark, not the consumer, decides what is read, so "
    "that nothing is missed when partitions are added",
    "key.deserializer": "keys come as bytes; decode them with DataFrame operations",
    "value.deserializer": "values come as bytes; decode them with DataFrame operations",
    "enable.auto.commit": "Spark keeps its own offsets; `headrace_spark.progress` shows them to Kafka's tools",
    "interceptor.classes": "interceptors may change what is read",
}


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """How to come to the cluster, and how to read from it."""

    bootstrap_servers: str
    settings: ClusterSettings
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED  # the connector's default, and Kafka's
    partition_fetch_bytes: int = PARTITION_FETCH_BYTES
    fetch_bytes: int = FETCH_BYTES

    @property
    def is_read_committed(self) -> bool:
        """Whether records of open and aborted transactions are left out."""
        return self.isolation is IsolationLevel.READ_COMMITTED


def parse_kafka_options(options: Mapping[str, str]) -> KafkaOptions:
    """From all options of a source, their names in lower case. Raises ValueError."""
    kafka = {name.removeprefix(PREFIX): value for name, value in options.items() if name.startswith(PREFIX)}
    _refuse_what_cannot_be(kafka)
    found = _found(options, kafka)
    bootstrap_servers = (found.bootstrap_servers or "").strip()
    if not bootstrap_servers:
        raise ValueError("option 'kafka.bootstrap.servers' is missing: host:port, or several with commas between")
    parse_addresses(bootstrap_servers)
    isolation = one_of(
        "kafka.isolation.level",
        kafka.get("isolation.level", "read_uncommitted"),
        ("read_uncommitted", "read_committed"),
    )
    return KafkaOptions(
        bootstrap_servers,
        _settings(kafka, found.security),
        IsolationLevel[isolation.upper()],
        _bytes(kafka, "max.partition.fetch.bytes", PARTITION_FETCH_BYTES),
        _bytes(kafka, "fetch.max.bytes", FETCH_BYTES),
    )


def _settings(kafka: Mapping[str, str], security: ClientSecurity) -> ClusterSettings:
    defaults = ClusterSettings()
    return ClusterSettings(
        client_id=kafka.get("client.id") or SOFTWARE_NAME,
        connect_timeout_s=_seconds(kafka, "socket.connection.setup.timeout.ms", defaults.connect_timeout_s),
        request_timeout_s=_seconds(kafka, "request.timeout.ms", defaults.request_timeout_s),
        retry_for_s=_seconds(kafka, "default.api.timeout.ms", RETRY_FOR_S),
        metadata_age_max_s=_seconds(kafka, "metadata.max.age.ms", defaults.metadata_age_max_s),
        security=security,
    )


def _refuse_what_cannot_be(kafka: Mapping[str, str]) -> None:
    for name, reason in _REFUSED.items():
        if name in kafka:
            raise ValueError(f"option '{PREFIX}{name}' is not supported: {reason}")


def _found(options: Mapping[str, str], kafka: Mapping[str, str]) -> ClientFile:
    """Where the cluster is, and the way in."""
    path = options.get(COMMAND_CONFIG.lower(), "").strip()
    client = {name: value for name, value in kafka.items() if name == BOOTSTRAP_SERVERS or is_security_setting(name)}
    try:
        return read_client_file(path, client) if path else client_settings(client)
    except UnusableSettings as wrong:
        raise ValueError(f"options that begin with '{PREFIX}': {wrong}") from wrong


def _seconds(kafka: Mapping[str, str], name: str, default_s: float) -> float:
    return positive_number(PREFIX + name, kafka[name]) / 1000 if name in kafka else default_s


def _bytes(kafka: Mapping[str, str], name: str, default: int) -> int:
    return positive_number(PREFIX + name, kafka[name], INT32_MAX) if name in kafka else default
