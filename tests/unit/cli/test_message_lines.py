from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.cli.messages.formatter import json_format
from headrace.cli.messages.line_parser import BadLine, Message, json_lines, keyed_lines, plain_lines
from headrace.model.names import TopicPartition
from headrace.wire.batches.records import Record

MARKS = (("source", b"test"),)


def from_json(content: Any) -> Message:
    return json_lines((), None)(json.dumps(content).encode())


def test_a_plain_line_is_a_value() -> None:
    assert plain_lines(None, (), None)(b"a:b") == Message(None, b"a:b")
    assert plain_lines(b"k", MARKS, 2)(b"") == Message(b"k", b"", MARKS, 2)
    assert plain_lines(None, (), None)(b"\xff\x00") == Message(None, b"\xff\x00")


@pytest.mark.parametrize(
    ("line", "key", "value"), [(b"k:v", b"k", b"v"), (b"k:v:w", b"k", b"v:w"), (b":v", b"", b"v"), (b"k:", b"k", b"")]
)
def test_only_the_first_separator_counts(line: bytes, key: bytes, value: bytes) -> None:
    assert keyed_lines(b":", (), None)(line) == Message(key, value)


def test_a_separator_may_be_longer() -> None:
    assert keyed_lines(b" => ", (), None)(b"a => b") == Message(b"a", b"b")


def test_a_line_without_separator_is_bad() -> None:
    with pytest.raises(BadLine, match="no ':' between key and value"):
        keyed_lines(b":", (), None)(b"just text")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({}, Message(None, None)),
        ({"key": "k", "value": "v"}, Message(b"k", b"v")),
        ({"value": ""}, Message(None, b"")),
        ({"value": {"a": [1, None]}}, Message(None, b'{"a":[1,null]}')),
        ({"value": 1.5}, Message(None, b"1.5")),
        ({"value": True}, Message(None, b"true")),
        ({"key": 7, "value": "é"}, Message(b"7", "é".encode())),
        ({"value": "aGk=", "value_encoding": "base64"}, Message(None, b"hi")),
        ({"partition": 3, "timestamp": 1_700_000_000_000}, Message(None, None, (), 3, 1_700_000_000_000)),
        ({"timestamp": "2023-11-14T22:13:20Z"}, Message(None, None, (), None, 1_700_000_000_000)),
        ({"timestamp": "2023-11-14T22:13:20"}, Message(None, None, (), None, 1_700_000_000_000)),
        ({"timestamp": "2023-11-15T00:13:20.250+02:00"}, Message(None, None, (), None, 1_700_000_000_250)),
        ({"headers": {"a": "1", "b": None}}, Message(None, None, (("a", b"1"), ("b", None)))),
        (
            {"headers": [{"key": "a", "value": "1"}, {"key": "a", "value": "/w==", "value_encoding": "base64"}]},
            Message(None, None, (("a", b"1"), ("a", b"\xff"))),
        ),
        ({"topic": "other", "offset": 9, "value": "v"}, Message(None, b"v")),
    ],
)
def test_json_lines(content: dict[str, Any], expected: Message) -> None:
    assert from_json(content) == expected


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "not JSON"),
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "a JSON object was expected"),
        (b'{"vlaue": 1}', "unknown field 'vlaue'; expected are key, value"),
        (b'{"partition": -1}', "partition is -1"),
        (b'{"partition": true}', "partition is True"),
        (b'{"partition": "0"}', "partition is '0'"),
        (b'{"timestamp": "yesterday"}', "'yesterday' is not an ISO 8601 date"),
        (b'{"timestamp": "1969-12-31T23:59:59.999"}', "from 1970 on: it lies before 1970"),
        (b'{"timestamp": -5}', "timestamp is -5"),
        (b'{"timestamp": 4611686018427387905}', "expected milliseconds since 1970, at most 4611686018427387904"),
        (b'{"headers": "x"}', "headers were expected as an object"),
        (b'{"headers": [1]}', "a header was expected as an object"),
        (b'{"value": "!", "value_encoding": "base64"}', "value is not base64"),
        (b'{"value": 1, "value_encoding": "base64"}', "not a text"),
        (b'{"key": "a", "key_encoding": "hex"}', "key_encoding is 'hex'"),
        (b'{"value": "\\ud800"}', "surrogate"),
    ],
)
def test_bad_json_lines_say_what_is_wrong(line: bytes, problem: str) -> None:
    with pytest.raises(BadLine, match=problem):
        json_lines((), None)(line)


def test_options_are_for_messages_that_do_not_say_it_themselves() -> None:
    parse = json_lines(MARKS, 5)
    assert parse(b"{}") == Message(None, None, MARKS, 5)
    assert parse(b'{"partition": 1, "headers": {}}') == Message(None, None, (), 1)


@pytest.mark.parametrize(
    "record",
    [
        Record(3, 1_000, b"k", b"v", (("a", b"1"), ("a", b"\xff"))),
        Record(0, 0, None, None),
        Record(0, 0, b"\xff\xfe", b"\x00\x80"),
        Record(9, 5, b"", '"quoted" ü\n'.encode(), (("none", None),)),
    ],
)
def test_what_consume_prints_produce_can_read(record: Record) -> None:
    line = json_format(TopicPartition("events", 2), record)
    message = json_lines((), None)(line.rstrip(b"\n"))
    assert message == Message(record.key, record.value, record.headers, 2, record.timestamp)
