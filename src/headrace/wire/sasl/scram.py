"""SCRAM's four messages (RFC 5802). What is decoded is encoded to the same bytes again: both sides sign them.

Names and passwords are UTF-8 and otherwise as they are. RFC 5802 wants them prepared (SASLprep), but no Kafka client
does that, so preparing them here would keep out those whose password it changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.wire.primitives import Malformed
from headrace.wire.sasl.text import (
    Attributes,
    attributes_text,
    base64_bytes,
    base64_text,
    escape_name,
    gs2_header,
    message_text,
    nonce_of,
    printable,
    take_attributes,
    take_gs2_header,
    unescape_name,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

HASH_NAMES: Final[Mapping[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""Mechanism to the hash that it is made of, by hashlib's name."""

DELEGATED: Final = "tokenauth"
"""Kafka's extension of the first message: the name and password are those of a delegation token."""

_COUNT = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """Who wants to log in."""

    username: str
    nonce: str
    authorization_id: str = ""
    """As whom; empty: as oneself."""
    binding_flag: str = "n"
    extensions: Attributes = ()

    @classmethod
    def decode(cls, data: bytes | memoryview) -> ClientFirst:
        what = "SCRAM's first message"
        flag, authorization_id, bare = take_gs2_header(message_text(data, what), what)
        (name, nonce), extensions = take_attributes(bare, "nr", what)
        return cls(unescape_name(name, what), nonce_of(nonce, what), authorization_id, flag, extensions)

    def encode(self) -> bytes:
        return (self.gs2_header + self.bare).encode()

    @property
    def gs2_header(self) -> str:
        """What the last message repeats as its channel binding."""
        return gs2_header(self.binding_flag, self.authorization_id)

    @property
    def bare(self) -> str:
        """The part that is signed."""
        return attributes_text([("n", escape_name(self.username)), ("r", self.nonce), *self.extensions])

    @property
    def is_token(self) -> bool:
        """Whether it is a delegation token that logs in."""
        return any(key == DELEGATED and value.lower() == "true" for key, value in self.extensions)


@dataclass(frozen=True, slots=True)
class ServerFirst:
    """How the password was salted."""

    nonce: str
    """The client's, and the server's own behind it."""
    salt: bytes = field(repr=False)
    iterations: int
    extensions: Attributes = ()

    @classmethod
    def decode(cls, data: bytes | memoryview) -> ServerFirst:
        what = "SCRAM's answer to the first message"
        text = message_text(data, what)
        if text.startswith("e="):
            raise Malformed(f"{what} is an error: {printable(text[2:])}")
        (nonce, salt, iterations), extensions = take_attributes(text, "rsi", what)
        if not _COUNT.fullmatch(iterations):
            raise Malformed(f"{what} has iterations that are no number from 1 to 999999999")
        return cls(nonce_of(nonce, what), base64_bytes(salt, what), int(iterations), extensions)

    def encode(self) -> bytes:
        return self.text.encode()

    @property
    def text(self) -> str:
        salt = base64_text(self.salt)
        return attributes_text([("r", self.nonce), ("s", salt), ("i", str(self.iterations)), *self.extensions])


@dataclass(frozen=True, slots=True)
class ClientFinal:
    """The proof that the client knows the password."""

    binding: bytes
    """The header of its first message, as the client remembers it."""
    nonce: str
    proof: bytes = field(repr=False)
    extensions: Attributes = ()

    @classmethod
    def decode(cls, data: bytes | memoryview) -> ClientFinal:
        what = "SCRAM's last message"
        head, sign, proof = message_text(data, what).rpartition(",p=")
        if not sign:
            raise Malformed(f"{what} has no proof")
        (binding, nonce), extensions = take_attributes(head, "cr", what)
        return cls(base64_bytes(binding, what), nonce_of(nonce, what), base64_bytes(proof, what), extensions)

    def encode(self) -> bytes:
        return f"{self.without_proof},p={base64_text(self.proof)}".encode()

    @property
    def without_proof(self) -> str:
        """The part that is signed."""
        return attributes_text([("c", base64_text(self.binding)), ("r", self.nonce), *self.extensions])


@dataclass(frozen=True, slots=True)
class ServerFinal:
    """The proof that the server knows the password's verifier; or why the client may not enter."""

    signature: bytes = field(repr=False, default=b"")
    error: str = ""

    @classmethod
    def decode(cls, data: bytes | memoryview) -> ServerFinal:
        what = "SCRAM's answer to the last message"
        text = message_text(data, what)
        if text.startswith("e="):
            return cls(error=printable(text[2:].partition(",")[0]))
        (signature,), _ = take_attributes(text, "v", what)
        return cls(base64_bytes(signature, what))

    def encode(self) -> bytes:
        return (f"e={self.error}" if self.error else f"v={base64_text(self.signature)}").encode()


def signed_text(first: ClientFirst, answer: ServerFirst, final: ClientFinal) -> bytes:
    """RFC 5802's `AuthMessage`: what both sides sign."""
    return f"{first.bare},{answer.text},{final.without_proof}".encode()
