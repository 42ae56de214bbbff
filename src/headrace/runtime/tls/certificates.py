"""A certificate's names as text. Its bytes are looked at only after OpenSSL has found that it is valid."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from typing import Final, NamedTuple

from headrace.runtime.network import PeerCertificate

_KEYWORDS: Final = {
    bytes.fromhex(oid): keyword
    for oid, keyword in {
        "550403": "CN",
        "550406": "C",
        "550407": "L",
        "550408": "ST",
        "550409": "STREET",
        "55040a": "O",
        "55040b": "OU",
        "0992268993f22c640119": "DC",
        "0992268993f22c640101": "UID",
    }.items()
}
"""RFC 2253, section 2.3. What is not among them is written as numbers and bytes."""
_EXPLICIT_0: Final = 0xA0
_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"
_END: Final = b"-----END CERTIFICATE-----"
_GENERALIZED_TIME: Final = 0x18
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_ENCODINGS: Final = {0x0C: "utf-8", 0x13: "ascii", 0x16: "ascii", 0x14: "latin-1", 0x1E: "utf-16-be", 0x1C: "utf-32-be"}


def certificate_of(tls: ssl.SSLObject) -> PeerCertificate | None:
    """What the other side has shown, and OpenSSL has verified, after a handshake."""
    encoded = tls.getpeercert(binary_form=True)
    if not encoded or tls.context.verify_mode is ssl.CERT_NONE:
        return None
    details = tls.getpeercert() or {}
    names = tuple(f"{pair[0]}:{pair[1]}" for pair in details.get("subjectAltName", ()) if isinstance(pair[1], str))
    return PeerCertificate(subject_of(encoded), names, str(details.get("serialNumber", "")))


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER, as Java's `X500Principal.getName()` writes it."""
    return distinguished_name(_signed_fields(certificate)[4])


def end_of_validity_s(certificate: bytes) -> float:
    """Until when a certificate in DER is valid, as seconds since 1970. ValueError if it does not say so by RFC 5280."""
    _, end = _fields(_signed_fields(certificate)[3])
    has_century = end.tag == _GENERALIZED_TIME
    text = end.content.decode("ascii")
    if not has_century:  # RFC 5280: two digits are 1950 to 2049
        text = ("20" if text < "50" else "19") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def first_certificate(pem: bytes) -> bytes:
    """The one that a chain begins with, as DER. OpenSSL has read it before."""
    start = pem.index(_BEGIN)
    end = pem.index(_END, start) + len(_END)
    return ssl.PEM_cert_to_DER_cert(pem[start:end].decode("ascii"))


def _signed_fields(certificate: bytes) -> list[_Element]:
    fields = _fields(_fields(_Element.at(certificate, 0))[0])
    if fields[0].tag == _EXPLICIT_0:  # the version, which the first kind of certificates does not have
        fields = fields[1:]
    return fields


def distinguished_name(name: _Element) -> str:
    return ",".join(
        "+".join(_attribute(*_fields(pair)) for pair in _fields(relative)) for relative in reversed(_fields(name))
    )


class _Element(NamedTuple):
    """A piece of DER: its tag, what is in it, and all of its bytes."""

    tag: int
    content: bytes
    encoded: bytes

    @classmethod
    def at(cls, data: bytes, start: int) -> _Element:
        tag, size = data[start], data[start + 1]
        begin = start + 2
        if size & 0x80:
            digits = size & 0x7F
            size = int.from_bytes(data[begin : begin + digits], "big")
            begin += digits
        return cls(tag, data[begin : begin + size], data[start : begin + size])


def _fields(element: _Element) -> list[_Element]:
    found, at = [], 0
    while at < len(element.content):
        found.append(_Element.at(element.content, at))
        at += len(found[-1].encoded)
    return found


def _attribute(kind: _Element, value: _Element) -> str:
    keyword = _KEYWORDS.get(kind.content)
    encoding = _ENCODINGS.get(value.tag)
    if keyword is None or encoding is None:
        return f"{keyword or _dotted(kind.content)}=#{value.encoded.hex()}"
    return f"{keyword}={_escaped(value.content.decode(encoding, 'replace'))}"


def _escaped(text: str) -> str:
    inner = text.strip(" ")
    if not inner:
        return "\\ " * len(text)
    before, after = len(text) - len(text.lstrip(" ")), len(text) - len(text.rstrip(" "))
    written = "".join("\\00" if char == "\0" else f"\\{char}" if char in _ESCAPED else char for char in inner)
    return "\\ " * before + written + "\\ " * after


def _dotted(oid: bytes) -> str:
    numbers, number = [], 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
