"""How a message is printed: as a line of text, or as a JSON object. Pure."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from headrace.cli.messages.line_parser import BASE64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.model.names import TopicPartition
    from headrace.wire.batches.records import Record

    Formatter = Callable[[TopicPartition, Record], bytes]

NULL = b"null"
SHOWABLE = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def text_format(shown: Sequence[str], separator: bytes) -> Formatter:
    """One line per message, with these fields. Keys and values come out as the bytes that they are."""
    if tuple(shown) == ("value",):
        return lambda _, record: (NULL if record.value is None else record.value) + b"\n"

    def line(name: TopicPartition, record: Record) -> bytes:
        return separator.join(_field(field, name, record) for field in shown) + b"\n"

    return line


def json_format(name: TopicPartition, record: Record) -> bytes:
    return json.dumps(message_object(name, record), ensure_ascii=False).encode() + b"\n"


def message_object(name: TopicPartition, record: Record) -> dict[str, Any]:
    """Bytes that are not UTF-8 are given in base64, with a field beside them that says so."""
    shown: dict[str, Any] = {
        "topic": name.topic,
        "partition": name.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
    }
    _put(shown, "key", record.key)
    _put(shown, "value", record.value)
    shown["headers"] = [_header_object(key, value) for key, value in record.headers]
    return shown


def _header_object(key: str, value: bytes | None) -> dict[str, Any]:
    shown: dict[str, Any] = {"key": key.encode(errors="surrogateescape").decode(errors="replace")}
    _put(shown, "value", value)
    return shown


def _put(shown: dict[str, Any], field: str, raw: bytes | None) -> None:
    try:
        shown[field] = None if raw is None else raw.decode()
    except UnicodeDecodeError:
        assert raw is not None
        shown[field] = b64encode(raw).decode()
        shown[f"{field}_encoding"] = BASE64


def _field(field: str, name: TopicPartition, record: Record) -> bytes:
    match field:
        case "value":
            return NULL if record.value is None else record.value
        case "key":
            return NULL if record.key is None else record.key
        case "headers":
            return b",".join(
                key.encode(errors="surrogateescape") + b"=" + (NULL if value is None else value)
                for key, value in record.headers
            )
        case "topic":
            return name.topic.encode()
        case "partition":
            return str(name.partition).encode()
        case _:
            return str(getattr(record, field)).encode()
