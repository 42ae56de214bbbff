"""Which keys, certificates and versions TLS uses: as values, and as OpenSSL's contexts."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
"""Older ones can be read by others."""
PEM_BYTES_MAX: Final = 4 << 20  # all CAs that browsers trust are 250 KB
_JAVA_KEYSTORE: Final = b"\xfe\xed\xfe\xed"
_IANA: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
}
"""Kafka and Java use the registered names, OpenSSL its own."""
_OF_TLS_13: Final = {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"}


class UnusableTls(ValueError):
    """Files or settings that cannot be used. The text says which, why, and what to do; it tells no secret."""


class Pem(NamedTuple):
    """Keys or certificates, in a file or as they are."""

    path: str | None = None
    text: str | None = None

    def read(self) -> bytes:
        if self.path is None:
            return (self.text or "").encode()
        try:
            with open(self.path, "rb") as file:
                content = file.read(PEM_BYTES_MAX + 1)
        except OSError as error:
            raise UnusableTls(f"cannot read {self.path}: {(error.strerror or str(error)).lower()}") from error
        if len(content) > PEM_BYTES_MAX:
            raise UnusableTls(f"{self.path} is larger than {PEM_BYTES_MAX >> 20} MiB: that is no file of certificates")
        _expect_pem(self.path, content)
        return content

    def __str__(self) -> str:
        return self.path or "the PEM text in the settings"

    def __repr__(self) -> str:  # a text may be a key
        return f"Pem({str(self)!r})"


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """What a listener or a client uses. `own` and `key` prove who we are, `trusted` who others may be."""

    own: Pem | None = None
    """Our certificate, and those between it and the CA."""
    key: Pem | None = None
    """Our private key; where it is None, it is beside the certificate."""
    key_password: str | None = field(default=None, repr=False)
    trusted: Pem | None = None
    """CAs. None: those of the system, or nobody where clients are asked for certificates."""
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    suites: tuple[str, ...] = ()
    """Empty: OpenSSL's choice."""

    def files(self) -> Iterator[str]:
        for pem in (self.own, self.key, self.trusted):
            if pem is not None and pem.path is not None:
                yield pem.path


def server_context(settings: TlsSettings, *, client_auth: ssl.VerifyMode) -> ssl.SSLContext:
    """Raises UnusableTls."""
    if settings.own is None:
        raise UnusableTls(
            "a listener with TLS needs a certificate: set ssl.keystore.location or ssl.certificate.location"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _prepare(context, settings)
    if client_auth is not ssl.CERT_NONE:
        if settings.trusted is None:
            raise UnusableTls(
                "clients are asked for certificates (ssl.client.auth), and nothing says whose are accepted: set "
                "ssl.truststore.location or ssl.ca.location"
            )
        _trust(context, settings.trusted)
    context.verify_mode = client_auth
    return context


def client_context(settings: TlsSettings, *, expects_host: bool = True, verifies: bool = True) -> ssl.SSLContext:
    """Raises UnusableTls."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = expects_host and verifies
    context.verify_mode = ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE
    _prepare(context, settings)
    if settings.trusted is not None:
        _trust(context, settings.trusted)
    elif verifies:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return context


def _prepare(context: ssl.SSLContext, settings: TlsSettings) -> None:
    unknown = [version for version in settings.versions if version not in VERSIONS]
    if unknown or not settings.versions:
        named = ", ".join(unknown) or "none"
        raise UnusableTls(
            f"ssl.enabled.protocols names {named}; expected TLSv1.2, TLSv1.3 or both: older ones are broken"
        )
    versions = [VERSIONS[version] for version in settings.versions]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if settings.suites:
        _choose_suites(context, settings.suites)
    if settings.own is not None:
        _load_own(context, settings)


def _choose_suites(context: ssl.SSLContext, suites: tuple[str, ...]) -> None:
    new = _OF_TLS_13.intersection(suites)
    if new and new != _OF_TLS_13:
        raise UnusableTls(
            "ssl.cipher.suites names some suites of TLS 1.3: Python offers all three or none. Name all, or leave"
            " TLSv1.3 out of ssl.enabled.protocols"
        )
    older = [_IANA.get(suite, suite) for suite in suites if suite not in _OF_TLS_13]
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    if not new:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.set_ciphers(":".join(older))
    except ssl.SSLError as error:
        raise UnusableTls(f"ssl.cipher.suites: OpenSSL knows none of {', '.join(older)}") from error


def _load_own(context: ssl.SSLContext, settings: TlsSettings) -> None:
    assert settings.own is not None
    chain = settings.own.read()
    key = chain if settings.key is None else settings.key.read()
    where = settings.own if settings.key is None else settings.key
    if b"PRIVATE KEY-----" not in key:
        raise UnusableTls(f"{where} has no private key: name its file with ssl.key.location")
    if b"-----BEGIN CERTIFICATE-----" not in chain:
        raise UnusableTls(f"{settings.own} has no certificate (a PEM block that begins with BEGIN CERTIFICATE)")
    # OpenSSL reads files only, and what has been looked at has to be what is loaded: memory that looks like a file.
    with _as_file(chain) as chain_path, _as_file(key) as key_path:
        try:
            context.load_cert_chain(chain_path, key_path, password=lambda: settings.key_password or "")
        except (ssl.SSLError, OSError, ValueError) as error:
            raise UnusableTls(_why_not_loaded(error, settings, where, key)) from None


def _why_not_loaded(error: Exception, settings: TlsSettings, where: Pem, key: bytes) -> str:
    reason = getattr(error, "reason", None) or ""
    if reason == "KEY_VALUES_MISMATCH":
        return f"the key in {where} is not that of the certificate in {settings.own}: they come as a pair"
    if b"ENCRYPTED" in key:
        said = "is not the right one" if settings.key_password else "is not set"
        return f"the key in {where} is encrypted, and ssl.key.password {said}"
    return (
        f"{settings.own} and {where} cannot be used as certificate and key: {reason.lower().replace('_', ' ') or error}"
    )


def _trust(context: ssl.SSLContext, trusted: Pem) -> None:
    content = trusted.read()
    try:
        context.load_verify_locations(cadata=content.decode("ascii", "ignore"))
    except ssl.SSLError as error:
        raise UnusableTls(f"{trusted} has no certificate of a CA that can be read: {error.reason or error}") from error
    if not context.cert_store_stats()["x509"]:
        raise UnusableTls(f"{trusted} has no certificate (a PEM block that begins with BEGIN CERTIFICATE)")


def _expect_pem(path: str, content: bytes) -> None:
    if content.startswith(_JAVA_KEYSTORE):
        raise UnusableTls(
            f"{path} is a Java key store (JKS); PEM is expected. Convert it: keytool -importkeystore -srckeystore"
            f" {path} -destkeystore store.p12 -deststoretype pkcs12 && openssl pkcs12 -in store.p12 -out store.pem"
        )
    if content[:1] == b"\x30" and b"-----BEGIN" not in content:
        raise UnusableTls(
            f"{path} is binary (PKCS#12 or DER); PEM is expected. Convert it: openssl pkcs12 -in {path} -out store.pem,"
            f" or for one certificate: openssl x509 -inform der -in {path} -out cert.pem"
        )


class _as_file:  # noqa: N801 - used as a function in `with`
    """Bytes under a path that only this process has, and that no disk ever sees."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._descriptor = -1

    def __enter__(self) -> str:
        self._descriptor = os.memfd_create("tls")
        left = memoryview(self._content)
        while left:
            left = left[os.write(self._descriptor, left) :]
        return f"/proc/self/fd/{self._descriptor}"

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
