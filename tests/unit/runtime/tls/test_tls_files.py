"""Keys and certificates as files: what cannot be used is said in words, and what was replaced is used."""

from __future__ import annotations

import asyncio
import logging
import ssl
import subprocess
from typing import TYPE_CHECKING

import pytest

from headrace.runtime.network import Address, SystemNetwork
from headrace.runtime.threads import SystemThreads
from headrace.runtime.tls.contexts import ClientTls, ServerTls
from headrace.runtime.tls.network import TlsNetwork
from headrace.runtime.tls.settings import Pem, TlsSettings, UnusableTls
from tests.certificates import EXPIRED, Certificates, Held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def authority(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@pytest.fixture
def held(authority: Certificates) -> Held:
    return authority.issue("node")


@pytest.fixture
def threads() -> Iterator[SystemThreads]:
    threads = SystemThreads()
    yield threads
    threads.close()


def _java_keystore(path: Path, _: Held) -> TlsSettings:
    path.write_bytes(bytes.fromhex("feedfeed00000002") + bytes(100))
    return TlsSettings(Pem(str(path)))


def _pkcs12(path: Path, held: Held) -> TlsSettings:
    files = ["-in", str(held.certificate), "-inkey", str(held.key), "-out", str(path)]
    subprocess.run(["openssl", "pkcs12", "-export", "-passout", "pass:x", *files], check=True, capture_output=True)
    return TlsSettings(Pem(str(path)))


def _missing(path: Path, _: Held) -> TlsSettings:
    return TlsSettings(Pem(str(path)))


def _without_key(_: Path, held: Held) -> TlsSettings:
    return TlsSettings(Pem(str(held.certificate)))


def _key_for_certificate(_: Path, held: Held) -> TlsSettings:
    return TlsSettings(Pem(str(held.key)))


def _text(path: Path, _: Held) -> TlsSettings:
    path.write_text("hello")
    return TlsSettings(Pem(str(path)))


def _torn(path: Path, held: Held) -> TlsSettings:
    path.write_bytes(held.certificate.read_bytes()[:200] + b"\n-----END CERTIFICATE-----\n")
    return TlsSettings(Pem(str(path)), Pem(str(held.key)))


def _old_version(_: Path, held: Held) -> TlsSettings:
    return held.settings(versions=("TLSv1.1", "TLSv1.2"))


def _some_suites(_: Path, held: Held) -> TlsSettings:
    return held.settings(suites=("TLS_AES_128_GCM_SHA256",))


def _no_suites(_: Path, held: Held) -> TlsSettings:
    return held.settings(suites=("TLS_RSA_WITH_NULL_MD5",))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_java_keystore, r"is a Java key store \(JKS\); PEM is expected. Convert it: keytool .* openssl pkcs12"),
        (_pkcs12, r"is binary \(PKCS#12 or DER\); PEM is expected. Convert it: openssl pkcs12"),
        (_missing, "cannot read .*no such file"),
        (_without_key, "has no private key: name its file with ssl.key.location"),
        (_key_for_certificate, "has no certificate"),
        (_text, "has no private key"),
        (_torn, "cannot be used as certificate and key"),
        (_old_version, "names TLSv1.1; expected TLSv1.2, TLSv1.3"),
        (_some_suites, "offers all three or none"),
        (_no_suites, "OpenSSL knows none of TLS_RSA_WITH_NULL_MD5"),
    ],
)
def test_what_cannot_be_used_is_said_in_words(
    tmp_path: Path, held: Held, make: Callable[[Path, Held], TlsSettings], said: str
) -> None:
    with pytest.raises(UnusableTls, match=said):
        ServerTls(make(tmp_path / "bad", held))


def test_a_key_of_another_certificate(authority: Certificates, held: Held) -> None:
    other = authority.issue("other")
    with pytest.raises(UnusableTls, match="is not that of the certificate"):
        ServerTls(TlsSettings(Pem(str(held.certificate)), Pem(str(other.key))))


def test_an_encrypted_key_takes_its_password_which_is_told_nobody(authority: Certificates) -> None:
    locked = authority.issue("locked", password="planted-secret")
    ServerTls(locked.settings(key_password="planted-secret"))
    with pytest.raises(UnusableTls, match=r"is encrypted, and ssl.key.password is not set"):
        ServerTls(locked.settings())
    with pytest.raises(UnusableTls, match=r"is encrypted, and ssl.key.password is not the right one") as wrong:
        ServerTls(locked.settings(key_password="planted-wrong"))
    assert "planted" not in str(wrong.value)
    assert "planted" not in repr(locked.settings(key_password="planted-secret"))


def test_certificates_may_be_texts_and_one_file_may_hold_both(held: Held, tmp_path: Path) -> None:
    certificate, key = held.certificate.read_text(), held.key.read_text()
    texts = TlsSettings(Pem(text=certificate), Pem(text=key), trusted=Pem(text=held.authority.read_text()))
    ServerTls(texts, client_auth=ssl.CERT_REQUIRED)
    assert "PRIVATE" not in repr(texts)
    both = tmp_path / "both.pem"
    both.write_text(key + certificate)
    ServerTls(TlsSettings(Pem(str(both))))


def test_who_asks_clients_for_certificates_has_to_say_whose(held: Held) -> None:
    with pytest.raises(UnusableTls, match="nothing says whose are accepted"):
        ServerTls(TlsSettings(Pem(str(held.certificate)), Pem(str(held.key))), client_auth=ssl.CERT_REQUIRED)


def test_suites_go_by_their_registered_names(held: Held) -> None:
    suites = ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",)
    context = ServerTls(held.settings(suites=suites)).context
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2, "who names none of TLS 1.3 gets none of it"
    assert "ECDHE-ECDSA-AES128-GCM-SHA256" in {suite["name"] for suite in context.get_ciphers()}


class _Silent:
    link: object = None

    def connected(self, link: object) -> None:
        self.link = link

    def buffer(self) -> memoryview:
        return memoryview(bytearray(100))

    def received(self, count: int) -> None: ...

    def drained(self) -> None: ...

    def disconnected(self, error: Exception | None) -> None: ...


async def test_a_certificate_that_is_replaced_is_used_for_new_connections_and_a_broken_one_is_not(
    authority: Certificates, threads: SystemThreads, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    held = authority.issue("first", file="node")
    server = ServerTls(held.settings())
    fresh = asyncio.create_task(server.keep_fresh(threads, 0.02))
    listener = await TlsNetwork(SystemNetwork(), server=server).listen(Address("127.0.0.1", 0), _Silent)

    async def subject() -> str:
        link = await TlsNetwork(SystemNetwork(), client=ClientTls(held.trusting)).connect(listener.address, _Silent())
        assert link.certificate is not None
        link.abort()
        return link.certificate.subject

    assert await subject() == "CN=first"
    authority.issue("second", file="node")
    await _until(lambda: server.reloads > 0 and not server.problem_of_files)
    assert await subject() == "CN=second"
    held.key.write_text("nonsense")
    await _until(lambda: server.failed_reloads == 1)
    assert server.problem_of_files
    assert await subject() == "CN=second"
    authority.issue("over", file="node", period=EXPIRED)
    await _until(lambda: server.problem_of_files.endswith("has expired: put one there that is valid"))
    assert await subject() == "CN=second"
    before = server.failed_reloads
    held.certificate.unlink()
    await _until(lambda: server.failed_reloads > before)
    assert await subject() == "CN=second"
    authority.issue("third", file="node")
    await _until(lambda: not server.problem_of_files)
    assert await subject() == "CN=third"
    assert "the old ones stay in force" in caplog.text
    fresh.cancel()
    await listener.close()


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)
