"""What went wrong in TLS, in words: OpenSSL's name the place in its source rather than what to do."""

from __future__ import annotations

import ssl
from typing import Final

HTTP: Final = (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"PRI ")
KAFKA_FIRST_KEYS: Final = frozenset({0, 1, 3, 17, 18})  # what a client begins with; 18 is ApiVersions


class TlsFailure(ConnectionError):
    """A connection that is no TLS, or not with whom it should be. The text says what, and what to do."""


class UntrustedPeer(TlsFailure):
    """The other side is not, or cannot prove to be, who it should be. Trying again does not help."""


_VERIFICATION: Final = {
    9: "is not valid yet: is the clock right, here and there",
    10: "has expired: it has to be renewed",
    18: "is signed by itself, and is not among the trusted ones: {trust} has to name it, or the CA that signs instead",
    19: "comes from a CA that is not trusted here: {trust} has to name that CA's certificate",
    20: "comes from a CA that is not trusted here: {trust} has to name that CA's certificate",
    21: "comes from a CA that is not trusted here: {trust} has to name that CA's certificate",
    23: "was revoked",
    26: "was issued for another purpose: it needs {purpose} among its extended key usages",
    62: "is not for this host: {detail}",
    64: "is not for this address: {detail}",
}
"""By OpenSSL's X509_V_ERR numbers."""

_ALERTS: Final = {
    "TLSV1_ALERT_UNKNOWN_CA": "the other side does not know the CA that signed our certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the other side says that our certificate has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "the other side says that our certificate was revoked",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the other side does not accept our certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the other side does not accept our certificate",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "the other side does not accept certificates of this kind",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the other side asks for a certificate, and none was shown",
    "TLSV1_ALERT_ACCESS_DENIED": "the other side knows who we are, and refuses us",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the two sides have no version of TLS in common",
    "UNSUPPORTED_PROTOCOL": "the two sides have no version of TLS in common",
    "WRONG_SSL_VERSION": "the two sides have no version of TLS in common",
    "NO_SHARED_CIPHER": "the two sides have no cipher suite in common",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the other side refuses: it may ask for a certificate, or they have no cipher "
    "suite in common",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the other side has shown no certificate, and here one is asked for",
    "WRONG_VERSION_NUMBER": "the other side speaks no TLS",
    "UNEXPECTED_MESSAGE": "the other side speaks no TLS, or not as it should",
    "HTTP_REQUEST": "the other side speaks HTTP without TLS",
    "RECORD_LAYER_FAILURE": "the other side speaks no TLS, or its bytes were changed on their way",
    "DECRYPTION_FAILED_OR_BAD_RECORD_MAC": "bytes were changed on their way",
}
"""By OpenSSL's names of reasons."""


def in_words(error: ssl.SSLError, *, is_server: bool) -> TlsFailure:
    """Of a handshake, or of a connection that was cut in the middle."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return UntrustedPeer(_of_verification(error, is_server=is_server))
    said = _ALERTS.get(error.reason or "")
    if said is None:
        return TlsFailure(f"TLS failed: {(error.reason or str(error)).lower().replace('_', ' ')}")
    if "our certificate" in said or "a certificate" in said:
        return UntrustedPeer(said)
    return TlsFailure(said)


def _of_verification(error: ssl.SSLCertVerificationError, *, is_server: bool) -> str:
    whose = "client" if is_server else "server"
    told = _VERIFICATION.get(error.verify_code)
    if told is None:
        return f"the {whose}'s certificate is not accepted: {error.verify_message}"
    return f"the {whose}'s certificate " + told.format(
        trust="ssl.truststore.location" if is_server else "ssl.ca.location",
        purpose="clientAuth" if is_server else "serverAuth",
        detail=error.verify_message,
    )


def reason_against(first: bytes) -> str | None:
    """What somebody speaks whose first bytes are no TLS; None if they are, as far as they have come."""
    if first[:1] == b"\x16" and first[1:2] in {b"", b"\x03"}:
        return None
    if not first:
        return None
    if any(first.startswith(word[: len(first)]) for word in HTTP):
        return "it speaks HTTP without TLS" if len(first) >= 4 else None
    if first[:1] == b"\0" and len(first) >= 6 and int.from_bytes(first[4:6], "big") in KAFKA_FIRST_KEYS:
        return "it speaks Kafka's protocol without TLS: clients of this port set security.protocol to SSL or SASL_SSL"
    if first[:1] == b"\0" and len(first) < 6:
        return None
    return "its first bytes are no TLS"
