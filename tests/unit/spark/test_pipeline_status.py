"""Runs of pipelines as the cluster's topic tells of them: claims, signs of life, requests. No Spark is needed."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from headrace.client.producing.producer import BatchingProducer
from headrace.testing import Broker
from headrace_spark.blocking import BlockingCluster
from headrace_spark.pipeline.status.lease import RunLease
from headrace_spark.pipeline.status.query_status import QueryStatus
from headrace_spark.pipeline.status.run_status import (
    SILENT_AFTER_S,
    AlreadyRunning,
    RunState,
    RunStatus,
    new_run,
    now_utc,
)
from headrace_spark.pipeline.status.status_topic import TOPIC, ask_to_stop, read_status, write_run

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 120.0  # against hangs only
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[BlockingCluster]:
    with BlockingCluster(broker.bootstrap_servers) as client:
        yield client


class Events:
    """What a run hears from others."""

    def __init__(self) -> None:
        self.stop_asked = threading.Event()
        self.taken_over = threading.Event()
        self.by: list[str] = []

    def on_stop(self, who: str) -> None:
        self.by.append(who)
        self.stop_asked.set()

    def on_taken_over(self, other: RunStatus) -> None:
        self.by.append(other.run_id)
        self.taken_over.set()


def claim(broker: Broker, name: str, events: Events | None = None, *, take_over: bool = False) -> RunLease:
    heard = events or Events()
    return RunLease(
        broker.bootstrap_servers,
        name,
        "local",
        take_over=take_over,
        on_stop=heard.on_stop,
        on_taken_over=heard.on_taken_over,
    )


def read(client: BlockingCluster, name: str) -> RunStatus:
    return client.run(read_status(client.cluster)).runs[name]


def write(client: BlockingCluster, run: RunStatus) -> None:
    async def work() -> None:
        async with BatchingProducer(client.cluster) as producer:
            await write_run(producer, run)

    client.run(work())


def test_a_record_says_all_again_when_it_is_read() -> None:
    queries = (QueryStatus("topic-a", 3, 1000, 51.5, 200, 0, 7, 4096), QueryStatus("dead-letters"))
    run = replace(new_run("orders", "r1", "local[*]", NOON), queries=queries, restarts=2, error="no such topic: 'ä'")
    assert RunStatus.from_json(run.to_json()) == run
    failed = replace(queries[0].failed("ö", NOON, 4), late_rows=8, topics_made_anew=("t",))
    run = replace(run, queries=(failed,), error_at=NOON, error_in="topic-a")
    assert RunStatus.from_json(run.to_json()) == run


def test_a_newer_version_may_say_more() -> None:
    facts = new_run("orders", "r1", "local[*]", NOON).to_json()
    facts["colour"] = "green"
    facts["queries"] = [{"sink": "a", "batch_id": 1, "temperature": 20}]
    facts["state"] = "dreaming"
    told = RunStatus.from_json(facts)
    assert told.queries == (QueryStatus("a", 1),)
    assert told.is_alive(NOON), "whatever it does, it has not ended"


@pytest.mark.parametrize(
    ("state", "silent_s", "is_alive"),
    [
        (RunState.RUNNING, 0, True),
        (RunState.STARTING, SILENT_AFTER_S - 1, True),
        (RunState.RUNNING, SILENT_AFTER_S, False),
        (RunState.FINISHED, 0, False),
        (RunState.FAILED, 0, False),
    ],
)
def test_who_is_alive(state: RunState, silent_s: float, is_alive: bool) -> None:
    run = replace(new_run("orders", "r1", "local", NOON), state=state)
    assert run.is_alive(NOON + timedelta(seconds=silent_s)) == is_alive


def test_nobody_ever_ran_a_pipeline_here() -> None:
    with Broker() as fresh, BlockingCluster(fresh.bootstrap_servers) as client:
        assert client.run(read_status(client.cluster)).runs == {}


def test_a_run_is_seen_from_its_claim_to_its_end(broker: Broker, client: BlockingCluster) -> None:
    record = claim(broker, "seen")
    assert read(client, "seen").state is RunState.STARTING
    record.update(state=RunState.FINISHED, queries=(QueryStatus("a", 4),))
    record.close()
    ended = read(client, "seen")
    assert (ended.state, ended.queries) == (RunState.FINISHED, (QueryStatus("a", 4),))
    claim(broker, "seen").close()  # what has ended is in nobody's way


def test_the_next_run_knows_what_the_last_one_went_through(broker: Broker, client: BlockingCluster) -> None:
    first = claim(broker, "heir")
    failing = QueryStatus("a", 4, rows=10, lag=0, restarts=2, late_rows=8).failed("the disk is full", NOON, 5)
    first.update(state=RunState.FAILED, queries=(failing,), error="the disk is full", error_at=NOON, error_in="a")
    first.close()
    claim(broker, "heir").close()
    told = read(client, "heir")
    assert (told.error, told.error_at, told.error_in) == ("the disk is full", NOON, "a")
    (query,) = told.queries
    assert (query.is_failing, query.error, query.batch_id) == (True, "the disk is full", 4)
    assert (query.rows, query.restarts, query.lag) == (0, 0, None)
    assert query.late_rows == 8, "what was dropped stays dropped"


def test_a_second_run_is_refused_and_told_where_the_first_is(broker: Broker) -> None:
    record = claim(broker, "twice")
    try:
        with pytest.raises(AlreadyRunning, match=f"process {record.run.pid} on {record.run.host}"):
            claim(broker, "twice")
    finally:
        record.close()


def test_a_run_without_a_sign_of_life_is_in_nobodys_way(broker: Broker, client: BlockingCluster) -> None:
    claim(broker, "dead").close()
    long_ago = now_utc() - timedelta(seconds=2 * SILENT_AFTER_S)
    write(client, replace(new_run("dead", "zombie", "local", long_ago), state=RunState.RUNNING))
    successor = claim(broker, "dead")
    successor.close()
    assert successor.run.run_id != "zombie"


def test_a_run_that_died_on_this_machine_is_not_waited_for(broker: Broker, client: BlockingCluster) -> None:
    claim(broker, "killed").close()
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    write(client, replace(new_run("killed", "the one before", "local", now_utc()), pid=gone.pid))
    claim(broker, "killed").close()
    write(client, replace(new_run("killed", "elsewhere", "local", now_utc()), pid=gone.pid, host="elsewhere"))
    with pytest.raises(AlreadyRunning):
        claim(broker, "killed")


def test_whoever_is_taken_over_hears_of_it_and_stays_silent(broker: Broker, client: BlockingCluster) -> None:
    heard = Events()
    first = claim(broker, "moved", heard)
    second = claim(broker, "moved", take_over=True)
    assert heard.taken_over.wait(PATIENCE_S)
    assert heard.by == [second.run.run_id]
    second.update(state=RunState.RUNNING)
    first.update(state=RunState.FAILED)
    first.close()
    second.close()
    assert read(client, "moved").run_id == second.run.run_id


def test_a_late_word_of_the_run_before_is_not_a_take_over(broker: Broker, client: BlockingCluster) -> None:
    first = claim(broker, "late")
    heard = Events()
    second = claim(broker, "late", heard, take_over=True)
    write(client, first.run)  # on its way when it was taken over
    client.run(ask_to_stop(client.cluster, second.run))
    assert heard.stop_asked.wait(PATIENCE_S)  # all before it has been seen
    assert not heard.taken_over.is_set()
    first.close()
    second.close()


def test_of_two_claims_at_once_the_later_one_wins(broker: Broker, client: BlockingCluster) -> None:
    heard = Events()
    first = claim(broker, "race", heard)
    # Another run that has read the topic before our claim was in it, and claims after it.
    write(client, new_run("race", "the other", "local", now_utc()))
    assert heard.taken_over.wait(PATIENCE_S)
    first.close()
    assert read(client, "race").run_id == "the other"


def test_a_request_to_stop_reaches_the_run_that_it_means(broker: Broker, client: BlockingCluster) -> None:
    heard = Events()
    record = claim(broker, "stopped", heard)
    client.run(ask_to_stop(client.cluster, replace(record.run, run_id="an earlier run")))
    client.run(ask_to_stop(client.cluster, record.run))
    assert heard.stop_asked.wait(PATIENCE_S)
    record.close()
    assert len(heard.by) == 1


def test_what_others_put_into_the_topic_does_no_harm(broker: Broker, client: BlockingCluster) -> None:
    record = claim(broker, "sturdy")

    async def work() -> None:
        async with BatchingProducer(client.cluster) as producer:
            for key, value in [(b"sturdy", b"not JSON"), (b"", b"{}"), (b"\xff", b"[]"), (b"x/stop", b"7")]:
                await producer.send(TOPIC, key, value, partition=0)

    client.run(work())
    assert read(client, "sturdy").run_id == record.run.run_id
    record.close()
