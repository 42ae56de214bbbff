"""The comparison with Apache Kafka's tools: what counts as a difference, and that its page is of these commands."""

from __future__ import annotations

import re

import pytest

from tools.kafka_tools.both import read_kept
from tools.kafka_tools.commands import Command, read_commands
from tools.kafka_tools.comparison import (
    Difference,
    compared,
    complaints,
    differing,
    normal_lines,
    read_differences,
)
from tools.kafka_tools.jars import read_lock
from tools.kafka_tools.machine import TOOLS, Answer
from tools.kafka_tools.page import PAGE, _short

ASKED = Command("Topics", "kafka-topics --describe --topic t")
WORDS = Difference("words", "ours", (re.compile("[-+] Error: .*"),), re.compile("kafka-topics"), is_of_words=True)


def outcome(kafka: list[str], headrace: list[str], *known: Difference) -> list[str]:
    return complaints([compared(ASKED, differing(kafka, headrace), known)], known)


def test_the_page_is_of_these_commands_and_reasons() -> None:
    text = PAGE.read_text()
    commands = read_commands()
    assert [command.run for command in commands if f"| `{_short(command.run)}` |" not in text] == []
    assert f"The same {len(commands)} commands" in text
    assert [it.what for it in read_differences() if f"| {it.what} | {it.why} |" not in text] == []
    assert len(read_kept(commands)) == len(commands) >= 100
    assert {command.tool for command in commands} <= TOOLS.keys()


def test_every_jar_is_named_once_with_its_hash() -> None:
    jars = read_lock()
    assert len({jar.file for jar in jars}) == len(jars)
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in jars)


def test_what_is_by_chance_is_no_difference() -> None:
    said = (
        "Topic: t\tTopicId: kq3nXW0oQ3mZ9O-7A_b2Lg   PartitionCount: 1\n\n\tat java.base/x.y(Z.java:1)\non host:19092\n"
    )
    assert normal_lines(Answer(0, said), ASKED, {"host:19092": "NODE"}) == [
        "Topic: t TopicId: ID PartitionCount: 1",
        "on NODE",
    ]


@pytest.mark.parametrize("word", ["InvalidRecordException", "DESCRIBE_CLIENT_QUOTAS"])
def test_a_word_of_22_letters_is_no_id(word: str) -> None:
    assert normal_lines(Answer(0, word), ASKED, {}) == [word]


def test_an_exit_code_is_a_line() -> None:
    assert normal_lines(Answer(1, "x"), ASKED, {}) == ["x", "(exit code 1)"]


def test_a_difference_without_a_reason_fails() -> None:
    assert outcome(["a", "b"], ["a", "c"]) == [f"{ASKED.run}\n    - b", f"{ASKED.run}\n    + c"]
    assert outcome(["a"], ["a"]) == []


def test_a_reason_that_is_not_needed_fails() -> None:
    assert outcome(["a"], ["a"], WORDS) == ["differences.toml explains what is not there any more: words"]


def test_other_words_are_fine_for_the_same_error_alone() -> None:
    assert outcome(["Error: AException: no"], ["Error: AException: never"], WORDS) == []
    assert outcome(["Error: AException: no"], ["Error: BException: no"], WORDS) == [
        f"{ASKED.run}\n    names other errors"
    ]
