"""One seed, one run: nodes with clients, faults for a while, then none, and then everything is checked."""

from __future__ import annotations

import asyncio
import errno
import logging
import traceback
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from headrace.client.admin.admin import Admin, ConfigChange, Resource, ResourceType
from headrace.client.producing.producer import Acks, BatchingProducer, ProducerSettings
from headrace.metadata.elections.partition_leaders import partitions_of
from headrace.model.errors import DiskFailure, DiskFull, ErrorCode, Refusal
from headrace.model.names import TopicPartition
from headrace.simulation.checks.cluster_watch import ClusterWatch
from headrace.simulation.checks.invariants import NodeWatch, check_topics, read_all
from headrace.simulation.cluster import SimulatedCluster
from headrace.simulation.environment.fabric import Weather
from headrace.simulation.environment.loop import Deadlock, Livelock, OutOfTime
from headrace.simulation.environment.universe import Universe
from headrace.simulation.faults.faults import Faults
from headrace.simulation.groups_and_transactions import NODE_CONFIGS as GROUP_CONFIGS
from headrace.simulation.groups_and_transactions import WORKLOADS as COORDINATED_WORKLOADS
from headrace.simulation.groups_and_transactions import GroupsAndTransactions
from headrace.simulation.history.checker import check
from headrace.simulation.history.groups import GroupHistory
from headrace.simulation.history.history import Figures, History, Kind, Promise, Violation
from headrace.simulation.history.transactions import TransactionHistory
from headrace.simulation.workloads.compacted_keys import COMPACTED_KEYS, CompactedKeys
from headrace.simulation.workloads.compacted_keys import NODE_CONFIGS as CLEANING_CONFIGS
from headrace.simulation.workloads.context import WorkloadContext, draw_topics
from headrace.simulation.workloads.late_duplicates import LateDuplicates
from headrace.simulation.workloads.produce_and_consume import TROUBLE, consume, produce_in_batches, trim
from headrace.simulation.workloads.raw_producers import produce_bluntly, produce_pipelined, take_producer_ids
from headrace.simulation.workloads.topic_churn import TopicHistory, churn_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterator
    from random import Random
    from typing import Any

    from headrace.simulation.cluster import NodeProcess
    from headrace.simulation.history.history import Reading

WITHOUT_FAULTS_MAX_S = 380.0  # virtual; a run that takes longer after its last fault hangs somewhere
TROUBLE_S = (4.0, 20.0)
CLUSTER_TROUBLE_S = (300.0, 330.0)  # a failover takes a few seconds, and many are to happen
DENSE_S = 25.0  # with faults: clients of a longer run spread their work over it
GAP_FACTOR_MAX = 3.0  # between faults, in a longer run: a cluster that is never whole has nothing to lose
WHOLE_WITHIN_S = 30.0  # after the last fault: an election, what was missed, and then everybody is in sync again
WHOLE_STEP_S = 0.2
CALM_S = 3.0  # after the last fault, for a node that was down to come back before anything is asked of it
FLUSHED_WITHIN_S = 1.0  # what nobody waits for lingers 50 ms, and then takes a flush or two
KEEP_EVERYTHING = [("retention.ms", ConfigChange.SET, "-1"), ("retention.bytes", ConfigChange.SET, "-1")]
NODE_CONFIGS = {"log.retention.check.interval.ms": "700", **GROUP_CONFIGS}
WHOLE_FRACTIONS = (0.5, 0.8, 1.0)  # how often bytes travel together
CLUSTER_WHOLE_FRACTIONS = (0.9, 0.97, 1.0)  # pieces are most of a cluster's events, and one node meets them all as well
REPLICAS = 3
PLAIN_WORKLOADS = ("trimming", "topics", "producer ids", "blunt requests", "batches", "pipelines")
DUPLICATED_FRACTIONS = (0.0, 0.02, 0.15)  # of the requests of groups and transactions
COMPACTED_FRACTION = 0.3  # of the runs: cleaners are busy on every node


@dataclass
class Report:
    """What a run amounted to."""

    seed: int
    violations: list[Violation] = field(default_factory=list)
    figures: Figures = field(default_factory=Figures)
    faults: dict[str, int] = field(default_factory=dict)
    virtual_s: float = 0.0
    launches: int = 0
    steps: int = 0
    fingerprint: str = ""
    last_events: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not self.violations


def run_scenario(
    seed: int,
    kinds: Collection[str] | None = None,
    workloads: Collection[str] | None = None,
    *,
    node_count: int = 1,
    trouble_s: float | None = None,
) -> Report:
    """`kinds` of faults and `workloads`, by name; for how long there are faults. None lets the seed choose."""
    limit_s = WITHOUT_FAULTS_MAX_S + (max(*TROUBLE_S, *CLUSTER_TROUBLE_S) if trouble_s is None else trouble_s)
    universe = Universe(seed, limit_s=limit_s, weather=_draw_weather(Universe(seed).random("weather"), node_count))
    workloads = _draw_workloads(universe) if workloads is None else workloads
    scenario = _Scenario(universe, kinds, workloads, node_count, trouble_s)
    report = Report(seed)
    with _bugs_reported_to(scenario.history):
        try:
            report.violations, report.figures = universe.loop.finish(scenario.play())
        except (Deadlock, Livelock, OutOfTime) as hang:
            report.violations = [*scenario.history.conflicts, Violation(Kind.STUCK, None, -1, str(hang))]
        except Exception:  # noqa: BLE001 - whatever it is, it belongs into the report of this seed
            report.violations = [*scenario.history.conflicts, Violation(Kind.BUG, None, -1, traceback.format_exc())]
    report.faults = dict(scenario.faults.happened)
    report.virtual_s = universe.loop.time()
    report.launches = sum(process.launches for process in scenario.cluster.nodes)
    report.steps = universe.trace.count
    report.fingerprint = universe.trace.fingerprint
    report.last_events = universe.trace.recent()
    return report


def _configs(node_count: int, workloads: Collection[str]) -> dict[str, str]:
    configs = {**NODE_CONFIGS, **CLEANING_CONFIGS} if COMPACTED_KEYS in workloads else NODE_CONFIGS
    if node_count == 1:
        return configs
    return {**configs, "default.replication.factor": str(min(node_count, REPLICAS)), "min.insync.replicas": "2"}


def _draw_workloads(universe: Universe) -> list[str]:
    """Everything that writes plain records, or a part of that and some groups and transactions; some keys as well."""
    chance = universe.random("works")  # a name of chance stays as it is: another would be another run of every seed
    coordinated = [work for work in COORDINATED_WORKLOADS if chance.random() < 0.4]
    plain = [work for work in PLAIN_WORKLOADS if not coordinated or chance.random() < 0.4]
    keys = [COMPACTED_KEYS] if universe.random(COMPACTED_KEYS).random() < COMPACTED_FRACTION else []
    return [*plain, *coordinated, *keys]


def _draw_weather(chance: Random, node_count: int) -> Weather:
    return Weather(
        latency_s=chance.choice(((0.0001, 0.002), (0.00001, 0.0001), (0.001, 0.05))),
        spike_fraction=chance.choice((0.0, 0.01, 0.1)),
        window_bytes=chance.choice(((500, 4_000), (4_096, 262_144))),
        whole_fraction=chance.choice(WHOLE_FRACTIONS if node_count == 1 else CLUSTER_WHOLE_FRACTIONS),
        is_acknowledging_all=node_count == 1,
    )


class _Scenario:
    def __init__(
        self,
        universe: Universe,
        kinds: Collection[str] | None,
        workloads: Collection[str],
        node_count: int,
        trouble_s: float | None,
    ) -> None:
        self.history = History(has_failovers=node_count > 1)
        self.topic_history = TopicHistory()
        self.cluster = SimulatedCluster(universe, node_count=node_count, configs=_configs(node_count, workloads))
        chance = universe.random("scenario")
        drawn_s = chance.uniform(*(TROUBLE_S if node_count == 1 else CLUSTER_TROUBLE_S))
        self._trouble_s = drawn_s if trouble_s is None else trouble_s
        pace = max(1.0, self._trouble_s / DENSE_S)
        self.faults = Faults(self.cluster, kinds, gap_factor=min(pace, GAP_FACTOR_MAX))
        transactions, groups = TransactionHistory(self.history), GroupHistory(self.history, universe.loop.time)
        self._context = WorkloadContext(self.cluster, self.history, transactions, groups, draw_topics(chance), pace)
        self._workloads = workloads
        self._groups_and_transactions = GroupsAndTransactions(self._context, workloads)
        self._keys = CompactedKeys(self._context) if COMPACTED_KEYS in workloads else None
        duplicated_fraction = universe.random("echoes").choice(DUPLICATED_FRACTIONS)
        self._duplicates = LateDuplicates(
            self._context, duplicated_fraction, lambda: self.faults.happened.update(("late request",))
        )
        self.cluster.client_network = self._duplicates.network
        self._chance = chance
        if node_count == 1:
            self._watch_one()
        else:
            self._watch_all()
        for process in self.cluster.nodes:
            process.host.device.cold_fraction = chance.choice((0.0, 0.0, 0.2))
            process.flush_slowness = chance.choice((1.0, 10.0, 50.0))

    def _watch_one(self) -> None:
        watch = NodeWatch(self.history)

        def look(process: NodeProcess) -> None:
            if process.is_serving and process.node is not None:
                watch.look(process.node.topics)

        self.cluster.on_look = look

    def _watch_all(self) -> None:
        watch = ClusterWatch(self.cluster, self.history)
        self.cluster.on_look = lambda process: watch.look({process.host.life})
        self.cluster.universe.loop.between_turns = watch.look

    async def play(self) -> tuple[list[Violation], Figures]:
        self.cluster.start()
        await self.cluster.wait_ready()
        await self.cluster.run_on("operator", self._create_topics())
        writers = self._start_writers()
        readers = [self.cluster.run_on("reader", consume(self._context, "reader"))]
        writers += self._groups_and_transactions.start()
        readers += self._groups_and_transactions.start_readers()
        await self.faults.strike(self._trouble_s)
        await self._end_faults()
        for work in writers:
            await work
        await self._groups_and_transactions.settle()
        await self.cluster.run_on("judge", self._prove_health())
        for work in readers:
            await work
        self._check_survivors()
        await self._groups_and_transactions.end()
        await self.cluster.run_on("judge", self._note_state())
        # What is true now must be true after every way to go down.
        self._chance.choice((self._cut_power, self._crash, self._stop))()
        await self.cluster.wait_down()
        await self.cluster.wait_ready()
        figures = Figures()
        readings = await self.cluster.run_on("judge", self._check(figures))
        self._check_exits()
        return check(self.history, readings, figures)

    # The parts of a run

    async def _create_topics(self) -> None:
        async with self._context.client("operator") as cluster:
            for topic in self._context.topics:
                await Admin(cluster).create_topic(topic.name, partitions=topic.partition_count, configs=topic.configs)
                if topic.is_expiring:
                    self.history.expiring.add(topic.name)
        if self._keys is not None:
            await self._keys.create_topic()

    def _start_writers(self) -> list[asyncio.Task[Any]]:
        context, numbers = self._context, range(self._chance.choice((1, 1, 2)))
        every: dict[str, list[tuple[str, Callable[[WorkloadContext, str], Coroutine[Any, Any, None]]]]] = {
            "trimming": [("trimmer", trim)],
            "topics": [("keeper", partial(churn_topics, told=self.topic_history))],
            "producer ids": [("taker", take_producer_ids)],
            "blunt requests": [("blunt", produce_bluntly)],
            "batches": [(f"batcher{number}", produce_in_batches) for number in numbers],
            "pipelines": [(f"pipeliner{number}", produce_pipelined) for number in numbers],
        }
        assert tuple(every) == PLAIN_WORKLOADS
        wanted = [work for name in self._workloads if name in every for work in every[name]]
        writers = [self.cluster.run_on(name, work(context, name)) for name, work in wanted]
        if self._keys is not None:
            writers.append(self.cluster.run_on("keysmith", self._keys.write("keysmith")))
        return writers

    async def _end_faults(self) -> None:
        """No more faults, and nothing new is begun."""
        await self.faults.heal()
        self._duplicates.stop()
        self.cluster.is_hurried = True
        self._context.end()
        await asyncio.sleep(CALM_S)
        await self.cluster.wait_ready()
        await self._become_whole()

    async def _become_whole(self) -> None:
        """Every replica of every partition is in sync again, and every node knows it, before long."""
        now_s = self.cluster.universe.loop.time
        deadline_s = now_s() + WHOLE_WITHIN_S
        while (missing := self._missing_replicas()) and now_s() < deadline_s:  # noqa: ASYNC110 - many nodes are asked
            await asyncio.sleep(WHOLE_STEP_S)
        for partition, detail in missing:
            self.history.report(Kind.STUCK, partition, -1, f"{detail}, {WHOLE_WITHIN_S:g} s after the last fault")

    def _missing_replicas(self) -> list[tuple[TopicPartition, str]]:
        missing = []
        for process in self.cluster.nodes:
            if process.node is None:
                continue
            for topic, state in partitions_of(process.node.image):
                if set(state.isr) != set(state.replicas) or not state.has_leader:
                    name = TopicPartition(topic.name, state.partition)
                    led = f"led by {state.leader} in epoch {state.leader_epoch}"
                    missing.append((name, f"node {process.node_id} knows of {state.isr} of {state.replicas}, {led}"))
        return missing

    async def _prove_health(self) -> None:
        """Everything works again: every partition takes writes and can be read to its end."""
        async with self._context.client("judge") as cluster:
            for topic in self._context.topics:
                if topic.is_expiring:  # from here on records stay, so that they can be counted
                    resource = Resource(ResourceType.TOPIC, topic.name)
                    await Admin(cluster).alter_configs(resource, KEEP_EVERYTHING)
            for acks in (Acks.ALL, Acks.LEADER):
                await self._probe(BatchingProducer(cluster, ProducerSettings(acks=acks, delivery_timeout_s=20.0)))
            await asyncio.sleep(FLUSHED_WITHIN_S)
            await self._groups_and_transactions.finish(cluster)
            readings = await read_all(cluster, self._context.partitions, self.history, self._chance)
        for reading in readings:
            for offset, value in reading.records:
                self.history.saw(reading.partition, offset, value)
        self._context.goals = {reading.partition: reading.end_offset for reading in readings}

    async def _probe(self, producer: BatchingProducer) -> None:
        # Every write is flushed before long, so one that only the leader acked stays too, now that nothing is wrong.
        promise = Promise(is_durable=True, is_idempotent=producer.settings.numbers_batches)
        name = f"judge.{producer.settings.acks.name}"
        async with producer:
            for partition in self._context.partitions:
                value = self._context.value(name, self._chance)
                send = self.history.begin(name, partition, self.history.next_number(name), value, promise)
                try:
                    receipt = await producer.send(partition.topic, None, value, partition=partition.partition)
                    send.ok((await receipt).offset)
                except TROUBLE as trouble:
                    self.history.report(Kind.STUCK, partition, -1, f"it takes no write: {trouble}")

    async def _note_state(self) -> None:
        async with self._context.client("judge") as cluster:
            await self._groups_and_transactions.note_state(cluster)

    async def _check(self, figures: Figures) -> list[Reading]:
        async with self._context.client("judge") as cluster:
            await self._groups_and_transactions.check_state(cluster)
            await check_topics(cluster, self.topic_history, self.history)
            readings = await read_all(cluster, self._context.partitions, self.history, self._chance)
            await self._groups_and_transactions.check(cluster, readings, figures)
            if self._keys is not None:
                await self._keys.check(figures)
            return readings

    # The last fault, if it is one

    def _cut_power(self) -> None:
        for process in self.cluster.nodes:
            process.host.power_cut()

    def _crash(self) -> None:
        for process in self.cluster.nodes:
            process.host.crash()

    def _stop(self) -> None:
        for process in self.cluster.nodes:
            process.ask_to_stop()

    # Why nodes ended, or did not

    def _check_survivors(self) -> None:
        for life in self.faults.failed_lives:
            if not life.is_over:
                self.history.report(Kind.CARRIED_ON, None, -1, life.name)

    def _check_exits(self) -> None:
        for process in self.cluster.nodes:
            for when_s, error in process.exits:
                if error is not None and not self._is_excused(error):
                    detail = f"{process.host.name} at {when_s:.3f} s: {error!r}"
                    self.history.report(Kind.STOPPED, None, -1, detail)

    def _is_excused(self, error: BaseException) -> bool:
        """A disk that fails must end the node, and one that is full may keep it from starting."""
        has_failed_disk = "failed sync" in self.faults.happened or "failed write" in self.faults.happened
        if isinstance(error, DiskFailure | OSError):
            return has_failed_disk or ("full disk" in self.faults.happened and _is_lack_of_space(error))
        is_full = isinstance(error, Refusal) and error.code == ErrorCode.KAFKA_STORAGE_ERROR
        return is_full and "full disk" in self.faults.happened


def _is_lack_of_space(error: BaseException) -> bool:
    """Simulated disks keep none aside, so a vote or a decision may find no room."""
    cause = error.__cause__ or error
    return isinstance(error, DiskFull) or (isinstance(cause, OSError) and cause.errno == errno.ENOSPC)


JUDGED_BY_WHAT_COMES_OF_IT = {
    "headrace.broker.failure",
    "headrace.broker.membership.older_copy",
    "headrace.broker.replicas.damage",
}


class _BugHandler(logging.Handler):
    def __init__(self, history: History) -> None:
        super().__init__(logging.ERROR)
        self._history = history

    def emit(self, record: logging.LogRecord) -> None:
        # A node says so itself when it must stop; why it did is judged by the error that it stops with. And it says so
        # if the only copy in sync is damaged; whether anything was lost by it is judged by what can be read at the end.
        if record.name not in JUDGED_BY_WHAT_COMES_OF_IT:
            self._history.report(Kind.BUG, None, -1, logging.Formatter().format(record))


@contextmanager
def _bugs_reported_to(history: History) -> Iterator[None]:
    """An error in a node's log is a violation; what it logs below that is not worth the time."""
    logger = logging.getLogger("headrace")
    before = (logger.handlers, logger.level, logger.propagate)
    handler = _BugHandler(history)
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.handlers, logger.propagate = before[0], before[2]
        logger.setLevel(before[1])
