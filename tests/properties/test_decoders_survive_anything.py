"""Whatever arrives, a decoder returns a message or raises Malformed: nothing else, and quickly."""

from __future__ import annotations

import random
from contextlib import suppress
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.wire.frames import decode_request_header
from headrace.wire.primitives import Malformed, Reader
from tests.properties.kio_oracle import all_pairs, full_message, kio_encode

LYING_NUMBERS = [b"\x7f\xff\xff\xff", b"\x3b\x9a\xca\x00", b"\xff\xff\xff\xff\x0f", b"\xff" * 10, b"\x80", b"\x00" * 4]


@cache
def decoders() -> list[tuple[type[Any], int, bytes]]:
    """Our class, a version, and a valid message of it with everything in it."""
    return [
        (pair.ours, version, kio_encode(full_message(pair.theirs(version))))
        for pair in all_pairs()
        for version in pair.versions
    ]


def decode_or_refuse(ours: type[Any], version: int, encoded: bytes) -> None:
    with suppress(Malformed):
        ours.decode(Reader(encoded), version)


@settings(max_examples=40, deadline=None)
@given(encoded=st.binary(max_size=120))
def test_random_bytes(encoded: bytes) -> None:
    for ours, version, _ in decoders():
        decode_or_refuse(ours, version, encoded)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_damaged_messages(seed: int) -> None:
    chance = random.Random(seed)
    for ours, version, valid in decoders():
        damaged = bytearray(valid)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(damaged) + 1)
            match chance.randrange(4):
                case 0:
                    damaged[at : at + 1] = chance.randbytes(1)
                case 1:
                    del damaged[at:]
                case 2:
                    del damaged[at : at + chance.randint(1, 4)]
                case _:
                    lie = chance.choice(LYING_NUMBERS)
                    damaged[at : at + len(lie)] = lie
        decode_or_refuse(ours, version, bytes(damaged))


def test_messages_cut_anywhere() -> None:
    for ours, version, valid in decoders():
        for end in range(0, len(valid), max(1, len(valid) // 40)):
            try:
                ours.decode(Reader(valid, 0, end), version)
            except Malformed:
                continue
            raise AssertionError(f"{ours.__name__} v{version} read {end} of {len(valid)} bytes as a whole message")


@settings(max_examples=300, deadline=None)
@given(frame=st.binary(max_size=40))
def test_random_request_headers(frame: bytes) -> None:
    try:
        header = decode_request_header(Reader(frame))
    except Malformed:
        return
    assert isinstance(header.client_id, str)
