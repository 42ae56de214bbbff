"""OAUTHBEARER (RFC 7628): a bearer token, and the server's words if it does not like it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final

from headrace.wire.primitives import Malformed
from headrace.wire.sasl.text import Attributes, gs2_header, message_text, take_gs2_header

MECHANISM: Final = "OAUTHBEARER"
TOKEN_MESSAGE_SIZE_MAX: Final = 60 * 1024
"""Tokens carry lists of groups and can be long; a frame before a login has 64 KiB."""
REFUSAL_SEEN: Final = b"\x01"
"""What a client answers to a refusal, so that the server can end the exchange."""

_SEPARATOR = "\x01"
_EXTENSIONS_MAX = 64
_BEARER = re.compile(r"bearer +([A-Za-z0-9\-._~+/]+=*)", re.ASCII | re.IGNORECASE)
_KEY = re.compile(r"[A-Za-z]{1,128}", re.ASCII)
_VALUE = re.compile(r"[\x21-\x7e \t\r\n]{1,8192}", re.ASCII)


@dataclass(frozen=True, slots=True)
class BearerLogin:
    token: str = field(repr=False)
    authorization_id: str = ""
    extensions: Attributes = ()
    """Other keys and values. A server looks at none of them."""

    @classmethod
    def decode(cls, data: bytes | memoryview) -> BearerLogin:
        what = "OAUTHBEARER's message"
        text = message_text(data, what, TOKEN_MESSAGE_SIZE_MAX)
        _, authorization_id, rest = take_gs2_header(text, what)
        if len(rest) < len(_SEPARATOR) * 3 or not rest.startswith(_SEPARATOR) or not rest.endswith(_SEPARATOR * 2):
            raise Malformed(f"{what} is not made of keys and values with the byte 1 between")
        pairs = [_pair(part, what) for part in rest[1:-2].split(_SEPARATOR, _EXTENSIONS_MAX)]
        tokens = [value for key, value in pairs if key == "auth"]
        if len(tokens) != 1 or len({key for key, _ in pairs}) != len(pairs):
            raise Malformed(f"{what} has no auth, or the same key twice")
        bearer = _BEARER.fullmatch(tokens[0])
        if bearer is None:
            raise Malformed(f"{what} has an auth that is no bearer token")
        return cls(bearer.group(1), authorization_id, tuple(pair for pair in pairs if pair[0] != "auth"))

    def encode(self) -> bytes:
        pairs = [("auth", f"Bearer {self.token}"), *self.extensions]
        body = "".join(f"{key}={value}{_SEPARATOR}" for key, value in pairs)
        return f"{gs2_header('n', self.authorization_id)}{_SEPARATOR}{body}{_SEPARATOR}".encode()


@dataclass(frozen=True, slots=True)
class BearerRefusal:
    """Why a token is not taken. The client answers with REFUSAL_SEEN, and the exchange has failed."""

    status: str
    scope: str = ""
    configuration: str = ""
    """Where the client's program finds out how to get a token."""

    @classmethod
    def decode(cls, data: bytes | memoryview) -> BearerRefusal:
        what = "OAUTHBEARER's refusal"
        try:
            found = json.loads(message_text(data, what))
        except (ValueError, RecursionError):
            raise Malformed(f"{what} is not JSON") from None
        if not isinstance(found, dict) or not isinstance(found.get("status"), str):
            raise Malformed(f"{what} has no status")
        texts = [found.get(key) for key in ("status", "scope", "openid-configuration")]
        return cls(*(text if isinstance(text, str) else "" for text in texts))

    def encode(self) -> bytes:
        said = {"status": self.status, "scope": self.scope, "openid-configuration": self.configuration}
        return json.dumps({key: value for key, value in said.items() if value}).encode()


def _pair(text: str, what: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
        raise Malformed(f"{what} has a part that is no key and value")
    return key, value
