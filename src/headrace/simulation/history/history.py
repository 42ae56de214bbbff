"""What clients did and were told, in order.

Producers write down every send before it leaves and its outcome when it is known. Consumers write down what they read.
After the last fault everything is read once more, and `checker` names each promise that was broken. Both know nothing
of nodes or files, so real processes, one simulated node and a cluster can all be checked by them.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.model.names import TopicPartition

SHOWN_BYTES = 60  # of a value in a report: enough to recognise it


class Promise(NamedTuple):
    """What a producer asked for, and so what it may rely on."""

    is_durable: bool
    """`acks=all`: once acked it is never lost."""
    is_idempotent: bool
    """However often it was retried, it is in the log at most once."""
    orders_unknown: bool = True
    """Sends of unknown outcome keep their place too. Not so if the producer goes on after it gave one up: an attempt
    that nobody waits for any more may still be on its way."""
    keeps_order: bool = True
    """Its sends stand in the log as they were sent. Not so without idempotence if a leader moves: what the old one has
    not answered yet is sent again, and what comes after it may have gone to the new one meanwhile."""


ACKS_ALL_IDEMPOTENT = Promise(is_durable=True, is_idempotent=True)
ACKS_ALL = Promise(is_durable=True, is_idempotent=False)
ACKS_LEADER = Promise(is_durable=False, is_idempotent=False)


class Outcome(Enum):
    OK = auto()
    FAILED = auto()
    """Surely not written: the node refused it for good."""
    UNKNOWN = auto()
    """No answer that settles it. It may be in the log or not."""


@dataclass(slots=True, eq=False)
class Send:
    producer: str
    partition: TopicPartition
    number: int
    """Counts the producer's sends, so that their order is known."""
    value: bytes
    promise: Promise
    outcome: Outcome = Outcome.UNKNOWN
    offset: int = -1
    """-1 also if the node knows that it has the batch, but not where."""

    def ok(self, offset: int) -> None:
        self.outcome, self.offset = Outcome.OK, offset

    def failed(self) -> None:
        self.outcome = Outcome.FAILED

    def is_ordered_at(self, offset: int, *, is_repeat: bool) -> bool:
        """True if what stands there must be in the order in which it was sent. Attempts that were repeated need not."""
        if not self.promise.keeps_order:
            return False
        if self.outcome is Outcome.OK:
            return self.promise.is_idempotent or offset == self.offset
        return self.promise.orders_unknown and not is_repeat

    def __str__(self) -> str:
        return f"send {self.number} of {self.producer} to {self.partition}"


class Kind(Enum):
    LOST = "an acked send is not where its ack said"
    GONE = "a record that a consumer saw is not there any more"
    TWO_VALUES = "an offset was given to two values"
    GAP = "offsets are missing"
    OUT_OF_PLACE = "offsets do not rise"
    REORDERED = "a producer's sends are not in the order in which it sent them"
    REPEATED = "an idempotent send is in the log more than once"
    REVIVED = "a send that was refused is in the log"
    INVENTED = "a value is in the log that nobody sent"
    WRONG_VALUE = "a key of a compacted topic has another value than its newest"
    CUT_OFF = "the log begins after what was asked to be deleted"
    UNDELETED = "the log begins before what was confirmed to be deleted"
    UNREAD = "a partition with acked sends was not read at the end"
    WENT_BACK = "a consumer was handed records in another order than theirs"
    SKIPPED = "a consumer was led past records that are there"
    WATERMARK_FELL = "the high watermark went back"
    TWO_PRODUCERS = "a producer id was given out twice"
    METADATA = "the cluster's topics are not what was acked"
    DISORDER = "a node's offsets contradict each other"
    STOPPED = "a node stopped and nothing had gone wrong"
    CARRIED_ON = "a node did not stop when its disk had failed"
    MISLED = "a lookup by time names another record than the first"
    STUCK = "the cluster does not serve again after every fault is over"
    TORN = "a transaction is to be seen in part"
    ABORTED_READ = "a reader of committed records was shown an aborted one"
    EARLY_READ = "a reader of committed records was shown one that nobody had asked to commit"
    PASSED_OPEN = "a reader of committed records was led past an open transaction"
    MISREAD = "a reader of committed records was not shown what the log's markers say"
    HANGING = "a transaction is open long after its time"
    WRONG_OFFSET = "a group's offset is none that was committed last"
    STALE_COMMIT = "a commit of an old generation or epoch was accepted"
    TWO_OWNERS = "two members of a group own a partition"
    ORPHANED = "nobody in a group owns a partition"
    UNPROCESSED = "a record was not transformed exactly once"
    FORGOTTEN = "a coordinator knows something else after it was loaded anew"
    TWO_LEADERS = "two nodes lead in one epoch"
    TWO_VOTES = "a node has voted twice in one term"
    METADATA_FORKED = "two nodes disagree on what was decided"
    FORKED = "two replicas hold different records below the high watermark"
    BEHIND = "a replica may be elected and lacks what was committed"
    UNCOUNTED = "a replica may be elected and its leader commits without it"
    FENCED_LEADER = "a node that is fenced still acts as a leader"
    FENCED_IN_SYNC = "a node that is fenced is in an in-sync set"
    BUG = "code failed in a way that nobody expects"


class Violation(NamedTuple):
    kind: Kind
    partition: TopicPartition | None
    offset: int
    detail: str

    def __str__(self) -> str:
        place = "" if self.partition is None else f" {self.partition}@{self.offset}"
        return f"{self.kind.name}{place}: {self.kind.value}: {self.detail}"


class Reading(NamedTuple):
    """One partition, read from its start to its end."""

    partition: TopicPartition
    start_offset: int
    end_offset: int
    """Exclusive."""
    records: Iterable[tuple[int, bytes]]
    """Offset and value, in the order in which they were read."""
    markers: frozenset[int] = frozenset()
    """Offsets of transactions' ends, which no consumer is handed."""
    aborted: frozenset[int] = frozenset()
    """Offsets of records that readers of committed ones are not handed."""


class Jump(NamedTuple):
    """A consumer was handed `next_offset` where it expected another. What lies between tells whether that is right."""

    consumer: str
    partition: TopicPartition
    expected: int
    next_offset: int
    is_committed_only: bool


@dataclass
class Figures:
    """What a run amounted to, for its report."""

    sends: int = 0
    acked_all: int = 0
    acked_leader: int = 0
    failed: int = 0
    unknown: int = 0
    unknown_but_written: int = 0
    found: int = 0
    seen_by_consumers: int = 0
    duplicates_without_idempotence: int = 0
    acked_leader_missing: int = 0
    """Not promised, so no violation."""
    joins: int = 0
    """Generations and epochs that members were told of, each with its share."""
    offsets_committed: int = 0
    offsets_unknown: int = 0
    transactions_committed: int = 0
    transactions_aborted: int = 0
    transactions_unknown: int = 0
    transformed: int = 0
    keys_acked: int = 0
    compacted_replicas: int = 0

    def __str__(self) -> str:
        return ", ".join(f"{name}={number}" for name, number in vars(self).items())


@dataclass
class History:
    """Everything that clients did and were told. Several threads may write to it."""

    sends: dict[bytes, Send] = field(default_factory=dict)
    seen: dict[TopicPartition, dict[int, bytes]] = field(default_factory=dict)
    conflicts: list[Violation] = field(default_factory=list)
    """Found while the run went on."""
    delete_asked: dict[TopicPartition, int] = field(default_factory=dict)
    delete_done: dict[TopicPartition, int] = field(default_factory=dict)
    expiring: set[str] = field(default_factory=set)
    """Topics whose retention may take records at any time."""
    watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    """The highest that anybody was told."""
    producer_ids: set[int] = field(default_factory=set)
    jumps: list[Jump] = field(default_factory=list)
    has_failovers: bool = False
    """A new leader may show less than the last one did, until its followers have been heard."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _numbers: Counter[str] = field(default_factory=Counter)
    _positions: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)
    _watermarks_told: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)

    def report(self, kind: Kind, partition: TopicPartition | None, offset: int, detail: str) -> None:
        self.conflicts.append(Violation(kind, partition, offset, detail))

    # Producers

    def next_number(self, producer: str) -> int:
        with self._lock:
            self._numbers[producer] += 1
            return self._numbers[producer]

    def numbers(self) -> dict[str, int]:
        """How many sends each producer has begun."""
        with self._lock:
            return dict(self._numbers)

    def begin(self, producer: str, partition: TopicPartition, number: int, value: bytes, promise: Promise) -> Send:
        """A send is about to leave. Its value is unlike every other."""
        send = Send(producer, partition, number, value, promise)
        with self._lock:
            assert value not in self.sends, f"{producer} sends a value for the second time"
            self.sends[value] = send
        return send

    def got_producer_id(self, producer_id: int) -> None:
        if producer_id in self.producer_ids:
            self.report(Kind.TWO_PRODUCERS, None, -1, f"{producer_id}")
        self.producer_ids.add(producer_id)

    # Consumers

    def saw(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """A consumer read this."""
        known = self.seen.setdefault(partition, {})
        earlier = known.get(offset)
        if earlier is None:
            send = self.sends.get(value)
            known[offset] = value if send is None else send.value  # the same bytes need not be kept twice
        elif earlier != value:
            self.report(Kind.TWO_VALUES, partition, offset, "two reads gave two values")

    def assigned(self, consumer: str, partition: TopicPartition, offset: int) -> None:
        """A consumer reads from here on; what it did before does not bind it."""
        self._positions[consumer, partition] = offset

    def polled(
        self, consumer: str, partition: TopicPartition, offset: int, value: bytes, *, is_committed_only: bool = False
    ) -> None:
        """A consumer was handed this record, after all that it was handed before."""
        expected = self._positions.get((consumer, partition), offset)
        if offset < expected:
            self.report(Kind.WENT_BACK, partition, offset, f"{consumer} expected {expected}")
        elif offset > expected and not self._may_be_gone(partition, offset):
            self.jumps.append(Jump(consumer, partition, expected, offset, is_committed_only))
        self._positions[consumer, partition] = offset + 1
        self.saw(partition, offset, value)

    def told_watermark(self, consumer: str, partition: TopicPartition, high_watermark: int) -> None:
        """One consumer's answers come in order, so the watermark in them must not go back."""
        before = self._watermarks_told.get((consumer, partition), 0)
        if high_watermark < before and not self.has_failovers:
            self.report(Kind.WATERMARK_FELL, partition, high_watermark, f"{consumer} was told {before} before")
        self._watermarks_told[consumer, partition] = high_watermark
        self.watermarks[partition] = max(high_watermark, self.watermarks.get(partition, 0))

    def _may_be_gone(self, partition: TopicPartition, before_offset: int) -> bool:
        return partition.topic in self.expiring or before_offset <= self.delete_asked.get(partition, 0)

    # Deletions

    def ask_delete(self, partition: TopicPartition, before_offset: int) -> None:
        """DeleteRecords is about to be asked for; from now on the log may begin there."""
        self.delete_asked[partition] = max(before_offset, self.delete_asked.get(partition, 0))

    def deleted(self, partition: TopicPartition, start_offset: int) -> None:
        """DeleteRecords was answered; from now on the log begins there or later."""
        self.delete_done[partition] = max(start_offset, self.delete_done.get(partition, 0))
