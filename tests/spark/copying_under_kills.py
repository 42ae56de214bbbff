"""A copy of a topic by Spark while driver, Python workers and node are killed at random, and what came out of it."""

from __future__ import annotations

import json
import random
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from tests.clients.commands import call
from tests.clients.nodes import PATIENCE_S, new_name
from tests.faults.load import create_topics
from tests.faults.node_process import NodeProcess
from tests.spark.aimed_kills import transactional_id_of, wait_for_publishing
from tests.spark.copied_records import as_confluent_reads, as_our_source_reads, fill
from tests.spark.copying_driver import MARK, CopySettings
from tests.spark.copying_pipeline import SINK, pipeline_command
from tests.spark.process_family import Family

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

LAST_WORDS: Final = 300  # characters of them, to explain an end
_TELLING: Final = re.compile(r"(Exception|Error|Fenced|StaleBatch): ")
HANG_S: Final = 600.0  # without a batch: something hangs. A JVM on a busy machine may take a minute to start
# Of drivers that nobody touched, nor a worker of theirs. They ride out what happens around them, but Spark gives a
# Python worker ten seconds to start, which may be too little for it on a busy machine.
ENDS_MAX: Final = 10
POLL_S: Final = 0.05
MOMENT_S_MAX: Final = 7.0  # a kill comes at any moment of a batch, which takes longer only if a driver begins with it
AIMED: Final = 0.7  # part of the kills that wait until a batch is being published
AIM_S: Final = 60.0  # at most, for a batch that is; there may be none left
PUBLISHING_S: Final = 0.2  # about as long as that takes
INPUT_PARTITIONS: Final = 4
OUTPUT_PARTITIONS: Final = 3
DOWN_S_MAX: Final = 2.0  # how long a killed node is away
KILL_THE_PLANNER: Final = 0.2  # how often it is the worker that is killed
KILL_WHILE_STARTING: Final = 0.2  # how often a node is killed again before it is ready
# Whatever they have to load at a start, it should not be the test's length that it decides.
NODE_CONFIGS: Final = {"offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "4"}


class Victim(Enum):
    MACHINE = "driver with everything"
    """All processes of the application at once."""
    JVM = "driver's JVM"
    SCRIPT = "driver's script"
    ZOMBIE = "driver that comes back"
    """It is not killed but stands still while its successor begins. Then there are two of them."""
    WORKER = "Python worker"
    NODE = "node"


DRIVER: Final = (Victim.MACHINE, Victim.JVM, Victim.SCRIPT, Victim.ZOMBIE)


class Plan(NamedTuple):
    records: int
    batch_records: tuple[int, int]
    """How many a batch has at least and at most; each life of the driver chooses."""
    kills: Mapping[Victim, int]
    seed: int
    master: str = "local[2,4]"
    conf: Mapping[str, str] = {}
    straggling_s: float = 3.0
    batches_between_max: int = 1
    """How many are finished between two kills, at most."""
    is_pipeline: bool = False
    """The copy is described in a file that `headrace pipeline run` runs, instead of in a script."""


@dataclass
class Figures:
    plan: Plan
    batches: int = 0
    kills: Counter[Victim] = field(default_factory=Counter)
    ends: list[str] = field(default_factory=list)
    """The last words of drivers that ended by themselves."""
    task_ends: Counter[str] = field(default_factory=Counter)
    twins: int = 0
    aborted: int = 0
    """Records that only readers of uncommitted records see."""
    staged_left: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        kills = ", ".join(f"{count} × {victim.value}" for victim, count in sorted(self.kills.items(), key=str))
        ends = ", ".join(f"{count} {reason}" for reason, count in sorted(self.task_ends.items()))
        return (
            f"seed {self.plan.seed} on {self.plan.master}: {self.plan.records} records in {self.batches} batches, "
            f"each exactly once; killed {kills}; the driver ended {len(self.ends)} × by itself {self.ends}; "
            f"tasks: {ends}; {self.twins} speculative twins; {self.aborted} records aborted on the way, "
            f"{self.staged_left} left in staging; "
            f"{self.seconds:.0f} s"
        )


class Copying:
    """One run. The node and the topics are there; the driver is started as often as it takes."""

    def __init__(self, home: Path, node: NodeProcess, plan: Plan) -> None:
        self._home = home
        self._node = node
        self._plan = plan
        self._chance = random.Random(plan.seed)
        self._source, self._target = new_name("numbers"), new_name("copies")
        create_topics(node.bootstrap, {self._source: (INPUT_PARTITIONS, {}), self._target: (OUTPUT_PARTITIONS, {})})
        self._checkpoint = home / "checkpoint"
        self._of_query = self._checkpoint / SINK if plan.is_pipeline else self._checkpoint
        self._journal = home / "journal.log"
        self._events = home / "events"
        self._events.mkdir()
        self._families: list[Family] = []
        self._frozen: list[Family] = []
        self._moment_s = 0.0  # within which the next kill comes
        self.figures = Figures(plan)

    # The run.

    def run(self) -> Figures:
        began_s = time.monotonic()
        fill(self._node.bootstrap, self._source, self._plan.records)
        try:
            self._copy_under_kills()
        finally:
            for family in self._families:
                family.kill_all()
        self._judge()
        self.figures.seconds = time.monotonic() - began_s
        return self.figures

    def _copy_under_kills(self) -> None:
        self._start_driver()
        victims = self._victims()
        while victims and self._wait_for_batches(self._chance.randint(1, self._plan.batches_between_max)):
            self._wait_for_the_moment()
            if self._kill(victims[-1]):
                self.figures.kills[victims.pop()] += 1
        while self._wait_for_a_batch():
            pass

    def _wait_for_the_moment(self) -> None:
        """Any moment of a batch; or, more often, one while it is published or has just been."""
        if self._chance.random() >= AIMED:
            time.sleep(self._chance.uniform(0.0, self._moment_s))
            return
        name = transactional_id_of(self._of_query, self._target if self._plan.is_pipeline else None)
        if wait_for_publishing(self._node.bootstrap, name, AIM_S):
            self._note("a batch is being published")
            time.sleep(self._chance.uniform(0.0, PUBLISHING_S))

    def _victims(self) -> list[Victim]:
        victims = [victim for victim, count in self._plan.kills.items() for _ in range(count)]
        self._chance.shuffle(victims)
        return victims

    def _wait_for_batches(self, count: int) -> bool:
        return all(self._wait_for_a_batch() for _ in range(count))

    def _wait_for_a_batch(self) -> bool:
        """Until one more batch was finished; False if there are no more."""
        finished, began_s = self._finished_batches(), time.monotonic()
        while self._finished_batches() == finished:
            if not self._runs_on():
                return False
            assert time.monotonic() - began_s < HANG_S, "no batch was finished"
            time.sleep(POLL_S)
        self._moment_s = min(MOMENT_S_MAX, 1.5 * (time.monotonic() - began_s))
        while self._frozen:
            self._frozen.pop().thaw()  # its successor is at work
        return True

    def _finished_batches(self) -> int:
        return 1 + max(_numbered_files(self._of_query / "commits"), default=-1)

    # The driver.

    def _start_driver(self) -> None:
        family = Family(self._home / f"driver-{len(self._families)}.log")
        settings = CopySettings(
            master=self._plan.master,
            bootstrap_servers=self._node.bootstrap,
            source=self._source,
            target=self._target,
            checkpoint=str(self._checkpoint),
            batch_records=self._chance.randint(*self._plan.batch_records),
            straggling_s=self._plan.straggling_s,
            conf={**self._event_log_conf(), **family.executor_conf, **self._plan.conf},
        )
        if self._plan.is_pipeline:
            family.start(pipeline_command(settings, self._home / "copying.toml"))
        else:
            family.start([sys.executable, "-m", "tests.spark.copying_driver", settings.to_json()])
        self._families.append(family)

    def _event_log_conf(self) -> dict[str, str]:
        return {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": self._events.as_uri(),
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
        }

    def _runs_on(self) -> bool:
        """Starts the driver again if it has ended by an error. False once it has ended well."""
        code = self._families[-1].exit_code()
        if code is None:
            return True
        if code == 0:
            return False
        log = self._families[-1].log_path.read_text()
        self.figures.ends.append(_last_words(log))
        self._note(f"the driver ended: {self.figures.ends[-1]}")
        allowed = ENDS_MAX + self.figures.kills[Victim.WORKER] + self.figures.kills[Victim.ZOMBIE]
        assert len(self.figures.ends) <= allowed, log
        self._start_driver()
        return True

    # The kills.

    def _kill(self, victim: Victim) -> bool:
        """False if there was nobody to kill."""
        self._note(f"killing the {victim.value}")
        family = self._families[-1]
        if victim is Victim.NODE:
            self._kill_the_node()
            return True
        if victim is Victim.WORKER:
            # Tasks are tried again after a worker's end; a stream without its planner has to end itself.
            workers = family.planners() if self._chance.random() < KILL_THE_PLANNER else family.python_workers()
            return bool(workers) and family.kill_one(self._chance.choice(workers))
        if family.exit_code() is not None:
            return False
        match victim:
            case Victim.MACHINE:
                family.kill_all()
            case Victim.SCRIPT:
                family.kill_head()
            case Victim.JVM if family.kill_jvm():
                family.wait(HANG_S)
            case Victim.ZOMBIE:
                family.freeze()
                self._frozen.append(family)
        # The next one begins at once: what lives on of the one before must not get in its way.
        self._start_driver()
        return True

    def _kill_the_node(self) -> None:
        self._node.kill()
        if self._chance.random() < KILL_WHILE_STARTING:
            self._node.launch()
            time.sleep(self._chance.uniform(0.1, 0.6))
            self._node.kill()
        time.sleep(self._chance.uniform(0.0, DOWN_S_MAX))
        self._node.start()

    def _note(self, text: str) -> None:
        """For whoever has to find out what happened."""
        with self._journal.open("a") as journal:
            print(time.strftime("%H:%M:%S"), f"after {self._finished_batches()} batches:", text, file=journal)

    # The judgement.

    def _judge(self) -> None:
        address = self._node.bootstrap
        for read in (as_confluent_reads, as_our_source_reads):
            assert read(address, self._target).verdict(self._plan.records, MARK) == ""
        transactions = json.loads(call(address, "transactions", "list", "--format", "json").out)
        assert all(each["state"] in {"CompleteCommit", "CompleteAbort", "Empty"} for each in transactions), transactions
        everything = as_our_source_reads(address, self._target, "read_uncommitted")
        self.figures.aborted = len(everything) - self._plan.records
        self.figures.staged_left = _staged_records(address)
        self.figures.batches = self._finished_batches()
        self._count_tasks()

    def _count_tasks(self) -> None:
        """From Spark's own log of events. A driver that was killed has not written its last ones."""
        for path in self._events.iterdir():
            for line in path.read_text().splitlines():
                if '"SparkListenerTaskEnd"' not in line:
                    continue
                try:
                    event = json.loads(line)
                except ValueError:  # cut off
                    continue
                self.figures.task_ends[event["Task End Reason"]["Reason"]] += 1
                self.figures.twins += event["Task Info"]["Speculative"]


def copy_under_kills(home: Path, plan: Plan) -> Figures:
    with NodeProcess(home / "data", home / "node.log", configs=NODE_CONFIGS) as node:
        return Copying(home, node.start(), plan).run()


def _last_words(log: str) -> str:
    """The last exception in a log, without where it came from."""
    told = [line for line in log.splitlines() if _TELLING.search(line)]
    return told[-1][:LAST_WORDS] if told else log[-LAST_WORDS:]


def _numbered_files(directory: Path) -> Iterator[int]:
    if directory.is_dir():
        yield from (int(path.name) for path in directory.iterdir() if path.name.isdigit())


def _staged_records(bootstrap_servers: str) -> int:
    """What lies in staging topics, of attempts that did not win and came late."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "unused"})
    try:
        total = 0
        for name, topic in consumer.list_topics(timeout=PATIENCE_S).topics.items():
            if name.startswith("__spark-staging-"):
                for partition in topic.partitions:
                    low, high = consumer.get_watermark_offsets(TopicPartition(name, partition), PATIENCE_S)
                    total += high - low
        return total
    finally:
        consumer.close()
