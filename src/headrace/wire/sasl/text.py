"""The grammar that SASL's text messages share: attributes with commas between, names that are escaped, base64."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Final

from headrace.wire.primitives import Malformed

if TYPE_CHECKING:
    from collections.abc import Sequence

MESSAGE_SIZE_MAX: Final = 8192
"""None of SCRAM's or PLAIN's messages needs a tenth of it: what is longer is not looked at."""
NAME_SIZE_MAX: Final = 1024

Attributes = tuple[tuple[str, str], ...]

_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", re.ASCII)
_ESCAPE = re.compile(r"=(?!2C|3D)")
_NONCE = re.compile(r"[\x21-\x2b\x2d-\x7e]{1,1024}", re.ASCII)
_KEY = re.compile(r"[A-Za-z]+", re.ASCII)


def message_text(data: bytes | memoryview, what: str, size_max: int = MESSAGE_SIZE_MAX) -> str:
    """A message's bytes as text. Malformed, which says `what` it was to be, without a byte of it."""
    if len(data) > size_max:
        raise Malformed(f"{what} has {len(data)} bytes; expected {size_max} at most")
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        raise Malformed(f"{what} is not UTF-8") from None


def take_gs2_header(text: str, what: str) -> tuple[str, str, str]:
    """What stands before the message itself (RFC 5801): the flag of channel binding, the authorization id, the rest."""
    flag, comma, rest = text.partition(",")
    if flag.startswith("p="):
        raise Malformed(f"{what} asks for channel binding, which no mechanism here has")
    identity, second_comma, rest = rest.partition(",")
    if not comma or not second_comma or flag not in {"n", "y"} or (identity and not identity.startswith("a=")):
        raise Malformed(f"{what} does not begin with 'n,,'")
    return flag, unescape_name(identity.removeprefix("a="), what) if identity else "", rest


def gs2_header(flag: str, authorization_id: str) -> str:
    return f"{flag},{'a=' + escape_name(authorization_id) if authorization_id else ''},"


def escape_name(name: str) -> str:
    """A name as attributes carry it: it may hold the signs that they are made of."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescape_name(text: str, what: str) -> str:
    if not text or len(text) > NAME_SIZE_MAX or "," in text or "\0" in text or _ESCAPE.search(text):
        raise Malformed(f"{what} has a name that is empty, too long, or not escaped as =2C and =3D")
    return text.replace("=2C", ",").replace("=3D", "=")


def take_attributes(text: str, keys: str, what: str) -> tuple[list[str], Attributes]:
    """The values of the attributes that have to come first, one letter each, in this order; and those that follow."""
    parts = text.split(",")
    if parts[0].startswith("m="):
        raise Malformed(f"{what} has an extension that must be understood, and none is")
    if len(parts) < len(keys) or any(not part.startswith(f"{key}=") for key, part in zip(keys, parts, strict=False)):
        expected = ",".join(f"{key}=…" for key in keys)
        raise Malformed(f"{what} does not have the attributes {expected}")
    return [part[2:] for part in parts[: len(keys)]], tuple(_extension(part, what) for part in parts[len(keys) :])


def attributes_text(attributes: Sequence[tuple[str, str]]) -> str:
    return ",".join(f"{key}={value}" for key, value in attributes)


def _extension(part: str, what: str) -> tuple[str, str]:
    key, sign, value = part.partition("=")
    if not sign or not value or not _KEY.fullmatch(key) or "\0" in value:
        raise Malformed(f"{what} ends with something that is no attribute")
    return key, value


def nonce_of(text: str, what: str) -> str:
    if not _NONCE.fullmatch(text):
        raise Malformed(f"{what} has a nonce that is empty, too long, or not printable")
    return text


def base64_bytes(text: str, what: str) -> bytes:
    """Decoded only if there is no other way to write the same bytes: a signature is over the text."""
    found = b64decode(text) if text and _BASE64.fullmatch(text) else b""
    if not found or b64encode(found).decode() != text:
        raise Malformed(f"{what} has an attribute that is not base64")
    return found


def base64_text(data: bytes) -> str:
    return b64encode(data).decode()


def printable(text: str) -> str:
    """What the other side says may end up on a terminal."""
    return "".join(sign if sign.isprintable() else "?" for sign in text[:200]) or "unknown"
