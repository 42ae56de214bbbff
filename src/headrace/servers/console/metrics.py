"""A node's numbers in Prometheus' text form, under the names that existing dashboards read where there are any."""

from __future__ import annotations

import resource
import sys
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from headrace import __version__
from headrace.broker.partitions.counters import LAG_BUCKETS_S
from headrace.metadata.image.partition_counts import count_partitions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from headrace.servers.console.measured import MeasuredNode

CONTENT_TYPE = CONTENT_TYPE_LATEST


class NodeCollector(Collector):
    """Reads the node's counters when asked; the hot path only adds to plain integers."""

    def __init__(self, node: MeasuredNode) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        yield from self._traffic()
        yield from self._partitions()
        yield from self._damage()
        yield from self._logins()
        yield from self._audit()
        yield from self._process()
        yield self._loop_lag()
        longest_s = self._node.counters.loop_lag.max_s
        yield _gauge("headrace_loop_lag_seconds_max", "The longest the event loop was ever late", longest_s)

    def _traffic(self) -> Iterator[Metric]:
        counters = self._node.counters
        yield _counter("kafka_server_brokertopicmetrics_messagesin", "Records written by clients", counters.messages_in)
        yield _counter("kafka_server_brokertopicmetrics_bytesin", "Bytes received from clients", counters.bytes_in)
        yield _counter("kafka_server_brokertopicmetrics_bytesout", "Bytes of records sent", counters.bytes_out)
        yield _counter("headrace_requests", "Requests served", counters.requests)
        yield _counter("headrace_refused_connections", "Connections closed for bad input", counters.refused_connections)
        yield _counter(
            "headrace_refused_writes", "Writes that did not happen, as on a full disk", counters.refused_writes
        )
        yield _gauge("headrace_disk_free_bytes", "Room on the disk", self._node.world.disk.free_bytes())
        yield _gauge("headrace_connections", "Open connections", counters.connections)
        yield _gauge("headrace_fetch_sessions", "Fetch sessions remembered", len(self._node.fetch_sessions))

    def _partitions(self) -> Iterator[Metric]:
        topics = list(self._node.topics)
        yield _gauge("kafka_brokers", "Nodes of the cluster", len(self._node.view.image.nodes))
        yield from self._partition_counts()
        partitions = GaugeMetricFamily("kafka_topic_partitions", "Partitions of a topic", labels=["topic"])
        for topic in topics:
            partitions.add_metric([topic.name], len(topic.partitions))
        yield partitions
        yield from self._offsets()
        yield from self._compaction()

    def _partition_counts(self) -> Iterator[Metric]:
        node = self._node
        troubles = {topic.topic_id: topic.troubles for topic in node.topics}
        counts = count_partitions(node.view.image, node.view.configs, troubles)
        for name, text, value in (
            ("replicamanager_partitioncount", "Replicas on this node", counts.here),
            ("replicamanager_leadercount", "Partitions led by this node", counts.led),
            (
                "replicamanager_offlinereplicacount",
                "Replicas on this node that it cannot serve",
                sum(map(len, troubles.values())),
            ),
            (
                "replicamanager_underreplicatedpartitions",
                "Partitions led by this node that miss a copy",
                counts.under_replicated,
            ),
            (
                "replicamanager_underminisrpartitioncount",
                "Partitions led by this node with fewer copies in sync than min.insync.replicas",
                counts.under_min_insync,
            ),
        ):
            yield _gauge(f"kafka_server_{name}", text, value)
        yield _gauge(
            "kafka_controller_kafkacontroller_offlinepartitionscount",
            "Partitions of the cluster that nobody leads, or that this node leads and cannot serve",
            counts.offline,
        )
        yield _gauge(
            "kafka_controller_kafkacontroller_activecontrollercount",
            "1 if this node is the controller",
            node.is_controller,
        )

    def _offsets(self) -> Iterator[Metric]:
        labels = ["topic", "partition"]
        newest = GaugeMetricFamily("kafka_topic_partition_current_offset", "High watermark", labels=labels)
        oldest = GaugeMetricFamily("kafka_topic_partition_oldest_offset", "Log start offset", labels=labels)
        size = GaugeMetricFamily("headrace_log_size_bytes", "Bytes on disk", labels=labels)
        for partition in self._node.topics.partitions():
            name = [partition.name.topic, str(partition.index)]
            newest.add_metric(name, partition.high_watermark)
            oldest.add_metric(name, partition.log.start_offset)
            size.add_metric(name, partition.log.size_bytes)
        yield newest
        yield oldest
        yield size

    def _damage(self) -> Iterator[Metric]:
        counters = self._node.counters
        yield _counter("headrace_scrubbed_bytes", "Bytes checked against their CRCs", counters.scrubbed_bytes)
        yield _counter("headrace_scrubbed_segments", "Segments checked to their end", counters.scrubbed_segments)
        yield _counter("headrace_damage_found", "Places in files that are not what was written", counters.damage_found)
        yield _counter("headrace_replicas_given_up", "Damaged copies fetched again", counters.replicas_given_up)
        yield _gauge("headrace_damaged_partitions", "Damaged copies on this node", self._node.damage.damaged_count)

    def _logins(self) -> Iterator[Metric]:
        logins = self._node.counters.logins
        yield _counter("headrace_logins", "Logins, by password, token or certificate", logins.succeeded)
        yield _counter("headrace_failed_logins", "Logins that were refused", logins.failed)
        yield _counter("headrace_expired_sessions", "Connections closed because nobody logged in again", logins.expired)

    def _audit(self) -> Iterator[Metric]:
        audit = self._node.counters.audit
        yield _counter("headrace_audit_written", "Lines of the audit in its file", audit.written)
        yield _counter("headrace_audit_delivered", "Records of the audit in its topic", audit.delivered)
        yield _counter("headrace_audit_folded", "Repeated refusals that were counted, not written", audit.folded)
        yield _counter("headrace_audit_not_kept", "Events that came too fast, and are lost", audit.not_kept)
        yield _counter("headrace_audit_not_written", "Lines that the file could not take", audit.not_written)
        yield _counter("headrace_audit_not_delivered", "Records that the topic could not take", audit.not_delivered)

    def _compaction(self) -> Iterator[Metric]:
        labels = ["topic", "partition"]
        dirty = GaugeMetricFamily("headrace_log_dirty_bytes", "Bytes that wait for compaction", labels=labels)
        passes = CounterMetricFamily("headrace_compactions", "Passes of compaction that ended well", labels=labels)
        saved = CounterMetricFamily("headrace_compaction_saved_bytes", "Bytes that compaction freed", labels=labels)
        errors = CounterMetricFamily("headrace_compaction_errors", "Passes of compaction that failed", labels=labels)
        latest = GaugeMetricFamily(
            "headrace_last_compaction_seconds", "When the last pass ended, in Unix time", labels=labels
        )
        took = GaugeMetricFamily("headrace_last_compaction_duration_seconds", "How long it took", labels=labels)
        stopped = GaugeMetricFamily(
            "headrace_compaction_stopped", "1 if the log is damaged and not compacted any more", labels=labels
        )
        for partition in self._node.topics.partitions():
            state = self._node.cleaner.states.get(partition.log_id)
            if state is None:
                continue
            name = [partition.name.topic, str(partition.index)]
            dirty.add_metric(name, state.dirty_bytes)
            passes.add_metric(name, state.passes)
            saved.add_metric(name, state.saved_bytes)
            errors.add_metric(name, state.errors)
            stopped.add_metric(name, state.is_stopped)
            if state.last_pass_ms >= 0:
                latest.add_metric(name, state.last_pass_ms / 1000)
                took.add_metric(name, state.last_pass_s)
        yield from (dirty, passes, saved, errors, latest, took, stopped)

    def _process(self) -> Iterator[Metric]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        yield _counter("process_cpu_seconds", "CPU time used", usage.ru_utime + usage.ru_stime)
        yield _gauge("process_resident_memory_peak_bytes", "Peak memory", usage.ru_maxrss * 1024)
        info = GaugeMetricFamily("headrace_info", "Who this is", labels=["version", "python", "node"])
        info.add_metric([__version__, sys.version.split()[0], str(self._node.node_id)], 1)
        yield info

    def _loop_lag(self) -> Metric:
        lag = self._node.counters.loop_lag
        buckets = []
        total = 0
        for bound, count in zip((*map(str, LAG_BUCKETS_S), "+Inf"), lag.counts, strict=True):
            total += count
            buckets.append((bound, total))
        family = HistogramMetricFamily("headrace_loop_lag_seconds", "How late the event loop ran what was due")
        family.add_metric([], buckets, lag.sum_s)
        return family


def render(node: MeasuredNode) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(NodeCollector(node))
    return generate_latest(registry)


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, value)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value)
