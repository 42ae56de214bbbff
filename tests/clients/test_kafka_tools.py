"""Kafka's command-line tools against a live cluster, beside what Apache Kafka answered to the same commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools.kafka_tools.both import ask_headrace, read_kept
from tools.kafka_tools.commands import read_commands
from tools.kafka_tools.comparison import compared, complaints, differing, read_differences
from tools.kafka_tools.jars import NotToBeHad

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("apache-kafka"), pytest.mark.timeout(900)]


def test_answers_are_apache_kafkas_or_explained(tmp_path: Path) -> None:
    commands, known = read_commands(), read_differences()
    try:
        answers = ask_headrace(commands, tmp_path, print)
    except NotToBeHad as missing:
        pytest.skip(f"missing: Apache Kafka's jars, or a Java for them: {missing}")
    outcomes = [
        compared(command, differing(kafka, ours), known)
        for command, kafka, ours in zip(commands, read_kept(commands), answers, strict=True)
    ]
    assert complaints(outcomes, known) == []
