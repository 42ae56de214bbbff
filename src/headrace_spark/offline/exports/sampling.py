"""How large a topic's records are, from a look at a few of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.client.connections.cluster import ClusterSettings
from headrace_spark.codec.columns import Columns
from headrace_spark.codec.decoder import RangeDecoder
from headrace_spark.kafka_options import KafkaOptions
from headrace_spark.source.data_loss import LossPolicy
from headrace_spark.source.range_reader import RangeFetcher
from headrace_spark.source.ranges import OffsetRange

if TYPE_CHECKING:
    from headrace.client.connections.cluster import Cluster
    from headrace.client.reading.offsets import IsolationLevel
    from headrace_spark.offline.exports.plan import PartitionRange

SAMPLE_BYTES: Final = 256 << 10
PLACES: Final = (0.0, 0.5, 0.9)  # of the longest partition: records may have grown with time
RECORD_BYTES_MIN: Final = 1.0


async def mean_record_bytes(cluster: Cluster, ranges: list[PartitionRange], isolation: IsolationLevel) -> float:
    """Keys, values and headers, in memory. A guess that only decides how large files become."""
    longest = max(ranges, key=lambda part: part.end - part.start)
    total_bytes = total_rows = 0
    for place in PLACES:
        start = longest.start + int((longest.end - longest.start) * place)
        found = await _sample(cluster, OffsetRange(longest.topic, longest.partition, start, longest.end), isolation)
        total_bytes += found[0]
        total_rows += found[1]
    return max(RECORD_BYTES_MIN, total_bytes / max(1, total_rows))


async def _sample(cluster: Cluster, wanted: OffsetRange, isolation: IsolationLevel) -> tuple[int, int]:
    """Bytes and rows of the first answer that a fetch of this range gets."""
    kafka = KafkaOptions("", ClusterSettings(), isolation, partition_fetch_bytes=SAMPLE_BYTES)
    columns = Columns(headers=True)
    decoder = RangeDecoder(*wanted.name, wanted.start, wanted.end, columns, read_committed=kafka.is_read_committed)
    fetcher = RangeFetcher(cluster, kafka, wanted, LossPolicy(is_fatal=False))
    try:
        answer = await fetcher.next_fetched()
        batches = [] if answer is None else list(decoder.decode(answer.records, answer.aborted))
    finally:
        await fetcher.close()
    contents = [batch.select(["key", "value", "headers"]) for batch in batches]
    return sum(batch.nbytes for batch in contents), sum(batch.num_rows for batch in contents)
