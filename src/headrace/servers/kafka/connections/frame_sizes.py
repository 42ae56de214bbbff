"""What sizes a frame may have; and who speaks, if its first bytes say one that none has."""

from __future__ import annotations

from typing import Final

from headrace.wire.primitives import Malformed

FRAME_MIN: Final = 10  # api key, version, correlation id, client id
_TLS: Final = b"\x16\x03"  # a handshake, of any version
_HTTP: Final = frozenset({b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"PRI "})


def check_frame_size(size: int, frame_max_bytes: int) -> None:
    """Raises Malformed, with what was probably meant: people take the wrong port, or forget a setting."""
    if FRAME_MIN <= size <= frame_max_bytes:
        return
    first = size.to_bytes(4, "big", signed=True)
    if first.startswith(_TLS):
        raise Malformed(
            "it speaks TLS, and this port does not: take the port of another listener, or set security.protocol to "
            "PLAINTEXT or SASL_PLAINTEXT"
        )
    if first in _HTTP:
        raise Malformed("it speaks HTTP, and this port speaks Kafka's protocol")
    raise Malformed(f"a frame of {size} bytes; allowed are {FRAME_MIN} to {frame_max_bytes}")
