"""What a node takes before it does anything: memory and time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench import wire
from bench.report import Line, Outcome, at_most
from bench.stage import TOPIC, median_of

if TYPE_CHECKING:
    from bench.stage import Stage

SETTLE_S = 2.0  # what start-up borrowed is given back by then


def idle(stage: Stage) -> Outcome:
    outcome = Outcome()
    with stage.node() as node:
        time.sleep(SETTLE_S)
        cpu_before_s = node.cpu_s()
        time.sleep(SETTLE_S)
        outcome.rounds.append({"rss_mb": node.resident_mb(), "cpu_share": (node.cpu_s() - cpu_before_s) / SETTLE_S})
    (taken,) = outcome.rounds
    outcome.lines = [
        Line("memory when idle (RSS)", taken["rss_mb"], "MB", at_most(60)),
        Line("CPU when idle", 100 * taken["cpu_share"], "%"),
    ]
    return outcome


def cold_start(stage: Stage) -> Outcome:
    """An empty directory, exec, a topic created, one record acknowledged with acks=all."""
    outcome = Outcome()
    for number in range(stage.rounds(10)):
        stage.say(f"cold start, round {number + 1}")
        start_s = time.perf_counter()
        with stage.node(cold=True) as node, node.connect() as connection:
            listening_s = time.perf_counter() - start_s
            wire.create_topic(connection, TOPIC, 1)
            wire.produce_one(connection, TOPIC, b"first")
            outcome.rounds.append({"listening_s": listening_s, "first_ack_s": time.perf_counter() - start_s})
    outcome.lines = [
        Line("cold start to the first connection", median_of(outcome.rounds, "listening_s"), "s"),
        Line("cold start to the first ack", median_of(outcome.rounds, "first_ack_s"), "s", at_most(0.5)),
    ]
    return outcome
