"""Asks the cluster, for one query, which partitions there are to read and what they hold."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, NamedTuple, assert_never

from headrace.client.reading.offsets import Edge, find_bounds, find_offsets
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_TOPIC_ID, TopicPartition
from headrace_spark.blocking import BlockingCluster
from headrace_spark.source.data_loss import Bounds, LossPolicy
from headrace_spark.source.offsets import EARLIEST, LATEST, made_anew, without_topics
from headrace_spark.source.options import Assign, AtOffsets, AtTime, AtTimes, Subscribe, SubscribePattern
from headrace_spark.source.ranges import readable_range, split_ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.client.connections.cluster import Cluster
    from headrace.client.connections.view import Topic
    from headrace_spark.source.offsets import Offsets, TopicIds
    from headrace_spark.source.options import OffsetSpec, SourceOptions
    from headrace_spark.source.ranges import OffsetRange

    AllBounds = dict[TopicPartition, Bounds]


class AvailableOffsets(NamedTuple):
    """What there is to read since the last batch."""

    starts: Offsets
    """Where it begins. Topics that were made anew have none: they are read from their beginning, as all new ones."""
    bounds: AllBounds
    topic_ids: TopicIds


OWN_TOPICS = ("__spark-staging-", "__headrace_")


class Planner:
    """Lives as long as its query, and so does its connection. `close` it."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._blocking = BlockingCluster(options.kafka.bootstrap_servers, options.kafka.settings)
        self._cluster: Cluster = self._blocking.cluster
        self.losses = LossPolicy(options.fail_on_data_loss)
        self.topic_ids: TopicIds = {}
        """Of the topics that were found when this last looked for any."""

    def close(self) -> None:
        """Close the connection."""
        self._blocking.close()

    # For batch queries.

    def batch_ranges(self) -> list[OffsetRange]:
        """What a batch query reads, cut into tasks."""
        return self._blocking.run(self._batch_ranges())

    async def _batch_ranges(self) -> list[OffsetRange]:
        options = self._options
        assert options.starting is not None
        assert options.ending is not None
        bounds = await self._bounds(self._complete(await self._chosen()))
        starts = await self._resolve(options.starting, bounds, is_start=True)
        ends = await self._resolve(options.ending, bounds, is_start=False)
        return self._cut(_settled(starts, bounds), _settled(ends, bounds), bounds)

    # For streaming queries.

    def initial_offsets(self) -> Offsets:
        """Where a new query starts. Those that start at the latest offset are marked: see `offsets.LATEST`."""

        async def initial_offsets() -> Offsets:
            assert self._options.starting is not None
            bounds = await self._bounds(self._complete(await self._chosen()))
            return await self._resolve(self._options.starting, bounds, is_start=True)

        return self._blocking.run(initial_offsets())

    def latest_offsets(self) -> Offsets:
        """The ends of those partitions that are there."""

        async def latest_offsets() -> Offsets:
            bounds = await self._bounds(await self._chosen())
            return {name: bound.end for name, bound in bounds.items()}

        return self._blocking.run(latest_offsets())

    def available_offsets(self, known: Offsets, topic_ids: TopicIds) -> AvailableOffsets:
        """What each partition holds now: those of `known` that are still there, and new ones."""
        return self._blocking.run(self._available_offsets(known, topic_ids))

    async def _available_offsets(self, known: Offsets, topic_ids: TopicIds) -> AvailableOffsets:
        found = self._complete(await self._chosen(), known)
        starts = without_topics(known, self._report_made_anew(topic_ids))
        return AvailableOffsets(starts, await self._bounds_not_below(found, starts), self.topic_ids)

    def stream_ranges(self, starts: Offsets, ends: Offsets, end_ids: TopicIds) -> list[OffsetRange]:
        """What one batch of a streaming query reads, cut into tasks. New partitions are read from their beginning."""
        return self._blocking.run(self._stream_ranges(starts, ends, end_ids))

    async def _stream_ranges(self, starts: Offsets, ends: Offsets, end_ids: TopicIds) -> list[OffsetRange]:
        wanted = [name for name, end in ends.items() if starts.get(name, 0) not in {end, LATEST}]
        found = await self._find_topics({name.topic for name in wanted})
        # Made anew after the batch was planned: what was to be read of them is gone.
        anew = self._report_made_anew(end_ids)
        there = [name for name in wanted if _exists(name, found) and name.topic not in anew]
        for name in sorted(set(wanted) - set(there)):
            if name.topic not in anew:
                self.losses.report_gone(name, starts.get(name, 0))
        bounds = await self._bounds_not_below(there, ends)
        return self._cut({name: starts.get(name, 0) for name in there}, ends, bounds)

    def _report_made_anew(self, known: TopicIds) -> set[str]:
        """Those of the known topics that are others by now."""
        topics = made_anew(known, self.topic_ids)
        for topic in sorted(topics):
            self.losses.report_made_anew(topic, known[topic], self.topic_ids[topic])
        return topics

    # Which partitions.

    async def _chosen(self) -> list[TopicPartition]:
        """Of the partitions that the options choose, those that there are."""
        match self._options.strategy:
            case Subscribe(topics):
                return _partitions(await self._find_topics(set(topics)))
            case SubscribePattern(pattern):
                view = await self._cluster.full_view()
                is_chosen = re.compile(pattern).fullmatch
                return _partitions(
                    self._noted(
                        topic for topic in view.topics.values() if is_chosen(topic.name) and not _is_internal(topic)
                    )
                )
            case Assign(partitions):
                found = await self._find_topics({name.topic for name in partitions})
                return [name for name in partitions if _exists(name, found)]
            case _ as never:
                assert_never(never)

    def _complete(self, found: list[TopicPartition], known: Offsets | None = None) -> list[TopicPartition]:
        """ValueError if one is missing that was never there, as far as is `known`: that is a mistake, and no loss."""
        names = {*found, *(known or {})}
        missing: list[str] = []
        match self._options.strategy:
            case Subscribe(topics):
                there = {name.topic for name in names}
                missing = [f"topic {topic!r}" for topic in topics if topic not in there]
            case Assign(partitions):
                missing = [
                    f"partition {name.partition} of topic {name.topic!r}" for name in partitions if name not in names
                ]
            case SubscribePattern():
                pass  # topics may come later
        if missing:
            option = "assign" if isinstance(self._options.strategy, Assign) else "subscribe"
            servers = self._options.kafka.bootstrap_servers
            raise ValueError(f"there is no {missing[0]} at {servers}; create it, or correct the option '{option}'")
        return found

    async def _find_topics(self, names: set[str]) -> dict[str, Topic]:
        """Those that there are, with the partitions that they have now."""
        cluster = self._cluster
        await cluster.topics(names)  # from here on a refresh asks for them

        async def attempt() -> dict[str, Topic]:
            view = await cluster.refresh()
            for name in names:
                code = view.refusals.get(name, ErrorCode.NONE)
                if code not in {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}:
                    raise Refusal(code, f"topic {name!r}: {code.name.lower().replace('_', ' ')}")
            return {name: view.topics[name] for name in names if name in view.topics}

        return self._noted((await cluster.retry(attempt)).values())

    def _noted(self, topics: Iterable[Topic]) -> dict[str, Topic]:
        found = {topic.name: topic for topic in topics}
        self.topic_ids = {name: topic.topic_id for name, topic in found.items() if topic.topic_id != NO_TOPIC_ID}
        return found

    # Which offsets.

    async def _bounds(self, names: list[TopicPartition]) -> AllBounds:
        found = await find_bounds(self._cluster, names, self._options.kafka.isolation)
        return {name: Bounds(*bounds) for name, bounds in found.items()}

    async def _bounds_not_below(self, names: list[TopicPartition], known: Offsets) -> AllBounds:
        """Ends that lie below what was known are asked for again, before anybody calls it a loss.

        A leader that has just taken over may not know yet how far the others are, and tell an end that lies too low.
        """
        bounds = await self._bounds_beside(names, known)
        for _ in range(self._options.offset_retry_count):
            if all(bounds[name].end >= known.get(name, 0) for name in names):
                break
            await asyncio.sleep(self._options.offset_retry_interval_ms / 1000)
            bounds = await self._bounds_beside(names, known)
        return bounds

    async def _bounds_beside(self, names: list[TopicPartition], known: Offsets) -> AllBounds:
        """A query that used to read uncommitted records may stand beyond the last stable offset. That is no loss."""
        bounds = await self._bounds(names)
        if self._options.kafka.is_read_committed:
            low = [name for name in names if bounds[name].end < known.get(name, 0)]
            ends = await find_offsets(self._cluster, dict.fromkeys(low, Edge.LATEST))
            for name in low:
                bounds[name] = Bounds(bounds[name].first, min(known[name], ends[name].offset))
        return bounds

    async def _resolve(self, offset_spec: OffsetSpec, bounds: AllBounds, *, is_start: bool) -> Offsets:
        """The offsets that are meant, and LATEST for those partitions where that is meant."""
        match offset_spec:
            case Edge.EARLIEST:
                return {name: bound.first for name, bound in bounds.items()}
            case Edge.LATEST:
                return dict.fromkeys(bounds, LATEST)
            case AtOffsets(offsets):
                _check_complete("Offsets", offsets, bounds, is_start=is_start)
                return {name: bounds[name].first if offset == EARLIEST else offset for name, offset in offsets.items()}
            case AtTime(timestamp_ms):
                return await self._at_times(dict.fromkeys(bounds, timestamp_ms), is_start=is_start)
            case AtTimes(timestamps_ms):
                _check_complete("OffsetsByTimestamp", timestamps_ms, bounds, is_start=is_start)
                return await self._at_times(timestamps_ms, is_start=is_start)
            case _ as never:
                assert_never(never)

    async def _at_times(self, timestamps_ms: Offsets, *, is_start: bool) -> Offsets:
        found = await find_offsets(self._cluster, timestamps_ms, self._options.kafka.isolation)
        offsets: Offsets = {}
        for name, found_offset in found.items():
            if found_offset.offset < 0 and is_start and not self._options.late_start_is_latest:
                raise ValueError(
                    f"topic {name.topic!r}, partition {name.partition}, has no record at or after the starting "
                    f"timestamp {timestamps_ms[name]}. To start at its end, set the option "
                    "'startingOffsetsByTimestampStrategy' to 'latest'"
                )
            offsets[name] = found_offset.offset if found_offset.offset >= 0 else LATEST
        return offsets

    def _cut(self, starts: Offsets, ends: Offsets, bounds: AllBounds) -> list[OffsetRange]:
        found = [
            readable_range(name, starts[name], ends[name], bounds[name], self.losses)
            for name in sorted(starts.keys() & ends.keys())
        ]
        ranges = [
            readable._replace(topic_id=self.topic_ids.get(readable.topic)) for readable in found if readable is not None
        ]
        return split_ranges(ranges, self._options.min_partitions, self._options.max_records_per_partition)


def _partitions(topics: Mapping[str, Topic]) -> list[TopicPartition]:
    return [TopicPartition(name, partition.index) for name in sorted(topics) for partition in topics[name].partitions]


def _exists(name: TopicPartition, topics: Mapping[str, Topic]) -> bool:
    return name.topic in topics and 0 <= name.partition < len(topics[name.topic].partitions)


def _settled(offsets: Offsets, bounds: AllBounds) -> Offsets:
    return {name: bounds[name].end if offset == LATEST else offset for name, offset in offsets.items()}


def _check_complete(suffix: str, given: Offsets, bounds: AllBounds, *, is_start: bool) -> None:
    option = ("starting" if is_start else "ending") + suffix
    if missing := sorted(bounds.keys() - given.keys()):
        raise ValueError(
            f"option '{option}' must name all partitions that are read; {', '.join(map(str, missing))} is missing"
            + (" (-1 stands for the latest offset, -2 for the earliest)" if suffix == "Offsets" else "")
        )
    if unknown := sorted(given.keys() - bounds.keys()):
        raise ValueError(f"option '{option}' names {', '.join(map(str, unknown))}, which does not exist or is not read")


def _is_internal(topic: Topic) -> bool:
    """Topics of the brokers, and those in which sinks and pipelines keep their state: no pattern chooses them."""
    return topic.is_internal or topic.name.startswith(OWN_TOPICS)
