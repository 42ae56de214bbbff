"""librdkafka hands on what it heard while a leader or a coordinator moved; whoever asks again is told."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from confluent_kafka import KafkaError, KafkaException

from tests.faults.node_process import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

PASSING = {KafkaError.NOT_COORDINATOR, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}


def until_told(ask: Callable[[], T]) -> T:
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except KafkaException as refusal:
            if refusal.args[0].code() not in PASSING or time.monotonic() > deadline_s:
                raise
        time.sleep(0.1)
