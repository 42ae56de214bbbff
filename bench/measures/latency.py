"""How long a producer waits, and how long the node makes everyone wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.error import URLError

from bench.node import longest_lag_s
from bench.programs import finish, running
from bench.report import Line, Outcome, at_most
from bench.stage import BATCH_1MB, TOPIC, load, median_of

if TYPE_CHECKING:
    from bench.node import Node
    from bench.stage import Stage

PACE = {"rate": 1000, "in_flight": 1000, "records": 1, "record_bytes": 100}
"""1,000 messages a second, evenly. The window is wide, so that a slow second does not slow the sending."""
STALL_MS_MAX = 50


def acks(stage: Stage) -> Outcome:
    outcome = Outcome()
    with stage.node() as node:
        node.create_topic(1)
        load(node, "produce_load", **PACE, seconds=0.5)
        for number in range(stage.rounds(3)):
            stage.say(f"acks at 1 k msg/s, round {number + 1}")
            one = load(node, "produce_load", **PACE, acks=1, seconds=stage.seconds(5))
            everyone = load(node, "produce_load", **PACE, acks=-1, seconds=stage.seconds(5))
            outcome.rounds.append({"acks=1": one, "acks=all": everyone})

    def middle_ms(who: str, key: str) -> float:
        return median_of([each[who] for each in outcome.rounds], key) / 1e3

    outcome.lines = [
        Line("ack p50 at 1 k msg/s, acks=1", middle_ms("acks=1", "p50_us"), "ms", at_most(0.3)),
        Line("ack p99 at 1 k msg/s, acks=1", middle_ms("acks=1", "p99_us"), "ms", at_most(5)),
        Line("ack p50 at 1 k msg/s, acks=all", middle_ms("acks=all", "p50_us"), "ms"),
        Line("ack p99 at 1 k msg/s, acks=all", middle_ms("acks=all", "p99_us"), "ms"),
    ]
    return outcome


def group_commit(stage: Stage) -> Outcome:
    """With acks=all every answer waits for a flush; one flush serves all who wait, in however many files."""
    outcome = Outcome()
    for partitions in (1, 100, 1000):
        everywhere = {"partitions": f"0-{partitions - 1}", "acks": -1, "connections": 16}
        full, paced = [], []
        with stage.node() as node:
            node.create_topic(partitions)
            load(node, "produce_load", **everywhere, in_flight=64, seconds=0.5)
            for number in range(stage.rounds(3)):
                stage.say(f"group commit over {partitions} partitions, round {number + 1}")
                full.append(load(node, "produce_load", **everywhere, in_flight=64, seconds=stage.seconds(2)))
                paced.append(load(node, "produce_load", **(PACE | everywhere), seconds=stage.seconds(3)))
        outcome.rounds.append({"partitions": partitions, "full": full, "paced": paced})
        where = f"acks=all, {partitions:,} partition{'s' if partitions > 1 else ''}"
        in_flight_ms = f"p50 {median_of(full, 'p50_us') / 1e3:.3g}, p99 {median_of(full, 'p99_us') / 1e3:.3g} ms"
        outcome.lines += [
            Line(f"{where}, 1,024 in flight", median_of(full, "requests_per_s") / 1e3, "k/s", remark=in_flight_ms),
            Line(f"{where}, ack p50 at 1 k msg/s", median_of(paced, "p50_us") / 1e3, "ms"),
            Line(f"{where}, ack p99 at 1 k msg/s", median_of(paced, "p99_us") / 1e3, "ms"),
        ]
    return outcome


def stalls(stage: Stage) -> Outcome:
    """Large batches, tiny requests and a reader at once; a quiet producer beside them feels every stall."""
    outcome, seconds = Outcome(), stage.seconds(5)
    with stage.node() as node:
        node.create_topic(5)
        stage.warm_pages(2000)
        where: dict[str, Any] = {"port": node.port, "topic": TOPIC}
        load(node, "produce_load", **BATCH_1MB, partitions="0-1", connections=2, megabytes=300, acks=-1)
        before = _metrics(node)
        with (
            # The rate keeps the large batches at 250 MB/s, within what a disk takes; the tiny ones fill what is left.
            running(
                "produce_load", **where, **BATCH_1MB, partitions="2-3", connections=2, rate=250, seconds=seconds
            ) as large,
            running("produce_load", **where, partitions="4", connections=8, in_flight=50, seconds=seconds) as tiny,
            running("fetch_load", **where, partitions="0-1", connections=2, passes=max(1, int(seconds))) as reader,
            running("produce_load", **where, partitions="4", rate=200, in_flight=1000, seconds=seconds) as quiet,
        ):
            parts = {"large": large, "tiny": tiny, "reader": reader, "quiet": quiet}
            taken: dict[str, Any] = {name: finish(started) for name, started in parts.items()}
        taken["loop_lag_s"] = longest_lag_s(before, _metrics(node))
    outcome.rounds.append(taken)
    lag_s = taken["loop_lag_s"]
    outcome.lines = [
        Line(
            "longest stall of the event loop, full load",
            None if lag_s is None else 1e3 * lag_s,
            "ms",
            at_most(STALL_MS_MAX),
            "/metrics has no headrace_loop_lag_seconds" if lag_s is None else "",
        ),
        Line("longest wait of a quiet producer, full load", taken["quiet"]["max_us"] / 1e3, "ms"),
    ]
    return outcome


def _metrics(node: Node) -> str:
    try:
        return node.metrics()
    except URLError:
        return ""
