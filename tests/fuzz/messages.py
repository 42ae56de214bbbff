"""Every message of every version, as requests of clients, as answers of nodes, and as records in logs.

An input begins with what it is (a byte), which one (two bytes) and in which version (a byte).
"""

from __future__ import annotations

import struct
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from headrace.client.groups.consumer_protocol import decode_assignment, decode_subscription
from headrace.coordinators import records as coordinated
from headrace.metadata.image import record_encoding as metadata
from headrace.model.errors import Refusal
from headrace.wire.api import APIS, request_class, response_class
from headrace.wire.primitives import Malformed, Reader, Writer
from tests.fuzz.harness import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REQUEST, RESPONSE, METADATA_RECORD, GROUP_RECORD, TRANSACTION_RECORD, SUBSCRIPTION, ASSIGNMENT = range(7)
ELEMENTS_MAX: Final = 50_000  # as a node takes from clients
HEAD: Final = struct.Struct(">BHB")
KEY_SIZE: Final = struct.Struct(">H")

CLASSES: Final[dict[int, dict[int, Any]]] = {
    REQUEST: {key: request_class(key) for key in APIS},
    RESPONSE: {key: response_class(key) for key in APIS},
}
"""Loaded now: what is imported later is not watched."""


def play(data: bytes) -> None:
    if len(data) < HEAD.size:
        return
    kind, number, version = HEAD.unpack_from(data)
    body = data[HEAD.size :]
    if kind in CLASSES:
        play_message(CLASSES[kind].get(number), version, body)
    elif kind in _PLAYS:
        _PLAYS[kind](body)


def play_message(message: Any, version: int, body: bytes) -> None:
    if message is None or not message.VERSIONS[0] <= version <= message.VERSIONS[1]:
        return
    try:
        reader = Reader(body, 0, len(body), ELEMENTS_MAX)
        found = message.decode(reader, version)
    except Malformed:
        return
    assert reader.position <= len(body), "it read past its end"
    again = encoded(found, version)
    # Bytes are compared: a number that is none is not equal to itself.
    assert encoded(message.decode(Reader(again), version), version) == again, "what was read is written otherwise"


def encoded(message: Any, version: int) -> bytes:
    writer = Writer()
    message.encode(writer, version)
    return bytes(writer.buffer)


def play_metadata(body: bytes) -> None:
    try:
        found = metadata.decode_record(body)
    except metadata.UnreadableRecord:
        return
    assert metadata.decode_record(metadata.encode_record(found)) == found


def _coordinators(kinds: coordinated.Kinds) -> Callable[[bytes], None]:
    def play_record(body: bytes) -> None:
        if len(body) < KEY_SIZE.size:
            return
        end = KEY_SIZE.size + KEY_SIZE.unpack_from(body)[0]
        key, value = body[KEY_SIZE.size : end], body[end:] or None
        try:
            found = coordinated.decode(kinds, key, value)
        except coordinated.UnreadableRecord:
            return
        # A version that is not written any more may say less than the present one, or more.
        newest_key, newest_value = coordinated.encode(_sayable(found))
        again = coordinated.decode(kinds, newest_key, newest_value)
        assert coordinated.encode(_sayable(again)) == (newest_key, newest_value)

    return play_record


def _sayable(record: coordinated.LogRecord) -> coordinated.LogRecord:
    """An offset that expires by itself has no leader epoch: the version that can say one cannot say the other."""
    value = record.value
    if getattr(value, "expire_timestamp", -1) != -1:
        return record._replace(value=replace(value, leader_epoch=-1, **_without_topic_id(value)))
    return record


def _without_topic_id(value: Any) -> dict[str, bytes]:
    return {"topic_id": bytes(16)} if any(field.name == "topic_id" for field in fields(value)) else {}


def _spoken(decode: Callable[[bytes], object]) -> Callable[[bytes], None]:
    def play_spoken(body: bytes) -> None:
        try:
            decode(body)
        except Refusal:
            return

    return play_spoken


_PLAYS: Final[dict[int, Callable[[bytes], None]]] = {
    METADATA_RECORD: play_metadata,
    GROUP_RECORD: _coordinators(coordinated.GROUP_KINDS),
    TRANSACTION_RECORD: _coordinators(coordinated.TRANSACTION_KINDS),
    SUBSCRIPTION: _spoken(decode_subscription),
    ASSIGNMENT: _spoken(decode_assignment),
}


def seeds() -> Iterator[bytes]:
    for kind, classes in CLASSES.items():
        for number, message in classes.items():
            for version in range(message.VERSIONS[0], message.VERSIONS[1] + 1):
                yield HEAD.pack(kind, number, version) + encoded(message(), version)
    for kind, kinds in ((GROUP_RECORD, coordinated.GROUP_KINDS), (TRANSACTION_RECORD, coordinated.TRANSACTION_KINDS)):
        for one in kinds.values():
            key, value = coordinated.encode(coordinated.LogRecord(one.key(), one.value()))
            yield HEAD.pack(kind, 0, 0) + KEY_SIZE.pack(len(key)) + key + (value or b"")
    for body in metadata._RECORD_TYPES.values():
        version = body.VERSIONS[1]
        yield HEAD.pack(METADATA_RECORD, 0, 0) + bytes([body.RECORD_KEY, version]) + encoded(body(), version)
    for kind in (SUBSCRIPTION, ASSIGNMENT):
        for version in range(4):
            yield HEAD.pack(kind, 0, 0) + version.to_bytes(2) + bytes(20)
    assert all(is_dataclass(message) for classes in CLASSES.values() for message in classes.values())


TARGET: Final = Target("messages", play, seeds, share=2.0)
