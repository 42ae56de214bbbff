"""PLAIN (RFC 4616): a name and a password as they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headrace.wire.primitives import Malformed
from headrace.wire.sasl.text import NAME_SIZE_MAX, message_text

MECHANISM: Final = "PLAIN"
_PARTS = 3


@dataclass(frozen=True, slots=True)
class PlainLogin:
    username: str
    password: str = field(repr=False)
    authorization_id: str = ""
    """As whom; empty: as oneself."""

    @classmethod
    def decode(cls, data: bytes | memoryview) -> PlainLogin:
        what = "PLAIN's message"
        parts = message_text(data, what).split("\0")
        if len(parts) != _PARTS:
            raise Malformed(f"{what} has {len(parts)} parts; expected an authorization id, a name and a password")
        authorization_id, username, password = parts
        for part, named in ((username, "name"), (password, "password")):
            if not part:
                raise Malformed(f"{what} has no {named}")
        if any(len(part) > NAME_SIZE_MAX for part in parts):
            raise Malformed(f"{what} has a part of more than {NAME_SIZE_MAX} characters")
        return cls(username, password, authorization_id)

    def encode(self) -> bytes:
        return "\0".join((self.authorization_id, self.username, self.password)).encode()
