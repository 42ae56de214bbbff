from __future__ import annotations

import json

from headrace.cli.messages.formatter import json_format, text_format
from headrace.model.names import TopicPartition
from headrace.wire.batches.records import Record

NAME = TopicPartition("events", 2)
RECORD = Record(7, 1_000, b"k", b"v", (("a", b"1"), ("b", None)))


def test_text_is_the_value_as_it_is() -> None:
    show = text_format(["value"], b"\t")
    assert show(NAME, RECORD) == b"v\n"
    assert show(NAME, Record(0, 0, None, b"\xff")) == b"\xff\n"
    assert show(NAME, Record(0, 0, None, None)) == b"null\n"


def test_text_with_chosen_fields() -> None:
    fields = ["topic", "partition", "offset", "timestamp", "key", "headers", "value"]
    assert text_format(fields, b"|")(NAME, RECORD) == b"events|2|7|1000|k|a=1,b=null|v\n"
    assert text_format(["key", "value"], b": ")(NAME, Record(0, 0, None, b"v")) == b"null: v\n"


def test_json_has_everything_on_one_line() -> None:
    line = json_format(NAME, RECORD)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "topic": "events",
        "partition": 2,
        "offset": 7,
        "timestamp": 1_000,
        "key": "k",
        "value": "v",
        "headers": [{"key": "a", "value": "1"}, {"key": "b", "value": None}],
    }


def test_json_marks_what_is_not_text() -> None:
    shown = json.loads(json_format(NAME, Record(0, 0, b"\xff", b"ok", (("h\udcff", b"\xfe"),))))
    assert (shown["key"], shown["key_encoding"]) == ("/w==", "base64")
    assert shown["value"] == "ok"
    assert "value_encoding" not in shown
    assert shown["headers"] == [{"key": "h\ufffd", "value": "/g==", "value_encoding": "base64"}]
