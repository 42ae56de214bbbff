"""Every measure by name, in the order in which they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.measures import (
    arrow_decoding,
    clients,
    exporting,
    footprint,
    latency,
    many_partitions,
    quotas,
    replication,
    security,
    spark_reading,
    throughput,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.report import Outcome
    from bench.stage import Stage


@dataclass(frozen=True)
class Measure:
    name: str
    summary: str
    take: Callable[[Stage], Outcome]


MEASURES = (
    Measure("generator", "the load generator's own limit, against a server that answers at once", throughput.generator),
    Measure("produce", "1 MB batches, acks=1, beside a C loop that only receives and writes", throughput.produce),
    Measure("fetch", "draining cached partitions, beside a C loop that only calls sendfile", throughput.fetch),
    Measure("tiny", "pipelined requests with one record of 100 bytes", throughput.tiny),
    Measure("batching", "records of 100 bytes, one per request against a thousand", throughput.batching),
    Measure("acks", "time to the ack at 1,000 messages/s, acks=1 and acks=all", latency.acks),
    Measure("group-commit", "acks=all over 1, 100 and 1,000 active partitions", latency.group_commit),
    Measure("stalls", "the longest turn of the event loop under full load", latency.stalls),
    Measure("cluster-acks", "acks=all on three nodes at 1,000 messages/s, and where the time goes", replication.acks),
    Measure("cluster-throughput", "acks=all on three nodes, 1 KiB messages", replication.throughput),
    Measure("cluster-idle", "three nodes with 4,000 partitions of three replicas, and nothing to do", replication.idle),
    Measure(
        "cluster-many-partitions",
        "20,000 partitions on three nodes: created, a node killed, and started again",
        many_partitions.many_partitions,
    ),
    Measure("failover", "a leader is killed: until its partition takes writes again", replication.failover),
    Measure("librdkafka", "the node's cost when confluent-kafka produces and consumes", clients.librdkafka),
    Measure("quotas", "whether quotas hold with confluent-kafka, and a neighbour keeps its rate", quotas.quotas),
    Measure("security", "TLS and a login beside plain connections, and access rules beside none", security.security),
    Measure(
        "spark-source",
        "topics into Spark, beside a tuple per record and the official connector",
        spark_reading.spark_source,
    ),
    Measure("spark-sink", "a micro-batch into a topic, beside the official connector", spark_reading.spark_sink),
    Measure("export", "topics to Parquet files and back, as the commands do it on two cores", exporting.export),
    Measure("idle", "memory of a node that has nothing to do", footprint.idle),
    Measure("cold-start", "from exec to the first ack", footprint.cold_start),
    Measure("arrow", "record batches to Arrow and back, as a Spark task does it", arrow_decoding.arrow),
)
