"""From a line of text to a message. Pure: what is wrong with a line is raised as `BadLine`."""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error as NotBase64
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.cli.terminal.timestamps import parse_timestamp
from headrace.model.names import TIMESTAMP_MAX_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Headers = tuple[tuple[str, bytes | None], ...]

BASE64 = "base64"
TEXT = "text"
FIELDS = ("key", "value", "headers", "partition", "timestamp", "key_encoding", "value_encoding")
PASSED_OVER = ("topic", "offset")  # `consume --format json` prints them; where a message goes is said by the options


class BadLine(Exception):
    """What is wrong with a line, and what was expected."""


class Message(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def plain_lines(key: bytes | None, headers: Headers, partition: int | None) -> Callable[[bytes], Message]:
    """Each line is a value."""
    return lambda line: Message(key, line, headers, partition)


def keyed_lines(separator: bytes, headers: Headers, partition: int | None) -> Callable[[bytes], Message]:
    """Each line is a key, the separator, and a value. Only the first separator counts."""

    def parse(line: bytes) -> Message:
        key, found, value = line.partition(separator)
        if not found:
            raise BadLine(f"no {separator.decode(errors='replace')!r} between key and value")
        return Message(key, value, headers, partition)

    return parse


def json_lines(headers: Headers, partition: int | None) -> Callable[[bytes], Message]:
    """Each line is a JSON object. The options are for those messages that do not say it themselves."""

    def parse(line: bytes) -> Message:
        try:
            content = json.loads(line)
        except (ValueError, RecursionError) as wrong:
            raise BadLine(f"not JSON: {wrong}") from wrong
        if not isinstance(content, dict):
            raise BadLine(f"a JSON object was expected, with any of {', '.join(FIELDS)}")
        return _message(content, headers, partition)

    return parse


def _message(content: dict[str, Any], headers: Headers, partition: int | None) -> Message:
    unknown = [name for name in content if name not in FIELDS and name not in PASSED_OVER]
    if unknown:
        raise BadLine(f"unknown field {unknown[0]!r}; expected are {', '.join(FIELDS)}")
    return Message(
        _bytes(content.get("key"), content.get("key_encoding"), "key"),
        _bytes(content.get("value"), content.get("value_encoding"), "value"),
        _headers(content["headers"]) if content.get("headers") is not None else headers,
        _partition(content.get("partition"), partition),
        _timestamp(content.get("timestamp")),
    )


def _bytes(value: Any, encoding: Any, field: str) -> bytes | None:
    """Text as it is, base64 if it is marked, anything else as JSON text; null stays null."""
    if encoding not in {None, TEXT, BASE64}:
        raise BadLine(f"{field}_encoding is {encoding!r}; expected {TEXT!r} or {BASE64!r}")
    if value is None:
        return None
    if encoding == BASE64:
        if not isinstance(value, str):
            raise BadLine(f"{field} is marked as {BASE64} and is not a text")
        try:
            return b64decode(value, validate=True)
        except (NotBase64, ValueError) as wrong:
            raise BadLine(f"{field} is not {BASE64}: {wrong}") from wrong
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError as wrong:
        raise BadLine(f"{field} holds half of a surrogate pair, which UTF-8 cannot express") from wrong


def _headers(value: Any) -> Headers:
    """An object of texts; or, since names may repeat, a list of objects with `key` and `value`."""
    if isinstance(value, dict):
        return tuple((name, _bytes(content, None, f"header {name!r}")) for name, content in value.items())
    if isinstance(value, list):
        return tuple(_header(entry) for entry in value)
    raise BadLine("headers were expected as an object, or as a list of objects with key and value")


def _header(entry: Any) -> tuple[str, bytes | None]:
    if not isinstance(entry, dict) or not isinstance(entry.get("key"), str):
        raise BadLine("a header was expected as an object with key and value")
    name = entry["key"]
    return name, _bytes(entry.get("value"), entry.get("value_encoding"), f"header {name!r}")


def _partition(value: Any, default: int | None) -> int | None:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadLine(f"partition is {value!r}; expected a number from 0 on")
    return value


def _timestamp(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return parse_timestamp(value)
        except ValueError as wrong:
            raise BadLine(f"timestamp {value!r} is not an ISO 8601 date from 1970 on: {wrong}") from wrong
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= TIMESTAMP_MAX_MS:
        raise BadLine(
            f"timestamp is {value!r}; expected milliseconds since 1970, at most {TIMESTAMP_MAX_MS}, or an ISO 8601 date"
        )
    return value


def parse_headers(pairs: Sequence[tuple[str, str]]) -> Headers:
    return tuple((name, value.encode()) for name, value in pairs)
