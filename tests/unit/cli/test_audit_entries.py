"""Entries of the audit: which are wanted, and one line for each, whatever clients call themselves."""

from __future__ import annotations

import json

import pytest

from headrace.cli.audit.entries import Filter, as_json, as_text, parse_line, parse_moment
from headrace.cli.audit.reading import lines_of
from headrace.cli.terminal.complaints import NOT_FOUND, Complaint

NOW_MS = 1_700_000_000_000
ENTRY = {
    "time": "2023-11-14T22:13:20.000Z",
    "node": 1,
    "sequence": 4,
    "action": "DeleteTopics",
    "outcome": "done",
    "principal": "User:alice",
    "host": "10.0.0.7",
    "client_id": "tool",
    "listener": "",
    "resource": "topic 'orders'",
    "detail": "",
}


@pytest.mark.parametrize(
    ("text", "moment_ms"),
    [
        ("90s", NOW_MS - 90_000),
        ("15m", NOW_MS - 900_000),
        ("1h", NOW_MS - 3_600_000),
        ("7d", NOW_MS - 7 * 86_400_000),
        ("999999999d", 0),
        ("2023-11-14T22:13:20Z", NOW_MS),
        ("2023-11-14 22:13:20", NOW_MS),
    ],
)
def test_a_moment(text, moment_ms):
    assert parse_moment(text, NOW_MS) == moment_ms


@pytest.mark.parametrize("text", ["", "1", "h", "-1h", "1w", "yesterday", "1 h", "٣h"])
def test_what_is_no_moment(text):
    with pytest.raises(ValueError, match="expected 90s, 15m, 1h, 7d or ISO 8601"):
        parse_moment(text, NOW_MS)


@pytest.mark.parametrize(
    ("wanted", "is_taken"),
    [
        (Filter(), True),
        (Filter(since_ms=NOW_MS), True),
        (Filter(since_ms=NOW_MS + 1), False),
        (Filter(until_ms=NOW_MS), False),
        (Filter(until_ms=NOW_MS + 1), True),
        (Filter(principal="User:alice"), True),
        (Filter(principal="User:al"), False),
        (Filter(action="deletetopics"), True),
        (Filter(action="CreateTopics"), False),
        (Filter(resource="orders"), True),
        (Filter(resource="bills"), False),
        (Filter(host="10.0.0.8"), False),
        (Filter(outcome="done"), True),
        (Filter(outcome="refused"), False),
    ],
)
def test_who_asks_for_some_gets_those(wanted, is_taken):
    assert wanted.takes(ENTRY) is is_taken


def test_one_line_for_people():
    assert as_text(ENTRY) == (
        "2023-11-14T22:13:20.000Z  node 1  User:alice from 10.0.0.7  DeleteTopics done  topic 'orders'  client tool"
    )
    assert as_text(ENTRY | {"repeated": 41}).endswith("  41 times more")


def test_no_name_moves_the_cursor_or_begins_a_line():
    line = as_text(ENTRY | {"client_id": "a\x1b[2J\nnode 2", "resource": "topic 'x\u2028y'", "detail": "\u202egnp"})
    assert line.isprintable()


def test_json_is_what_was_noted():
    assert json.loads(as_json(ENTRY)) == ENTRY
    assert parse_line(as_json(ENTRY).encode()) == ENTRY


@pytest.mark.parametrize("line", [b"", b'{"time":', b"[]", b"7", b"{}", b'{"time":1}', b"\xff"])
def test_what_is_no_entry_is_passed_over(line):
    assert parse_line(line) is None


def test_files_are_read_in_the_order_in_which_they_were_written(tmp_path):
    for number, name in enumerate(["audit.log.11", "audit.log.2", "audit.log.1", "audit.log"]):
        (tmp_path / name).write_bytes(b"%d\n" % number)
    (tmp_path / "audit.log.old").write_bytes(b"no\n")
    assert list(lines_of(tmp_path)) == [b"0", b"1", b"2", b"3"]
    assert list(lines_of(tmp_path / "audit.log.2")) == [b"1"]


def test_a_directory_without_audit_is_a_complaint(tmp_path):
    with pytest.raises(Complaint) as complaint:
        list(lines_of(tmp_path))
    assert complaint.value.exit_code == NOT_FOUND
