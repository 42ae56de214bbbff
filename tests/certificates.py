"""Authorities and certificates for tests, as files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from headrace.cli.security.authority import Authority, Period
from headrace.runtime.tls.settings import Pem, TlsSettings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NOW = datetime.now(UTC)
VALID = Period(NOW - timedelta(hours=1), NOW + timedelta(days=1))
EXPIRED = Period(NOW - timedelta(days=2), NOW - timedelta(days=1))
NOT_YET = Period(NOW + timedelta(days=1), NOW + timedelta(days=2))
HERE = ("localhost", "127.0.0.1", "::1")


class Held(NamedTuple):
    """A certificate and its key, as files."""

    certificate: Path
    key: Path
    authority: Path

    def settings(self, **others: object) -> TlsSettings:
        """Shows this certificate, and trusts its authority."""
        return TlsSettings(Pem(str(self.certificate)), Pem(str(self.key)), trusted=Pem(str(self.authority)), **others)

    @property
    def trusting(self) -> TlsSettings:
        """Trusts its authority, and shows nothing."""
        return TlsSettings(trusted=Pem(str(self.authority)))


class Certificates:
    """One authority, whose files are in a directory."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self.directory = directory
        self.authority = Authority.new(f"test {name}", VALID)
        self.path = directory / f"{name}.pem"
        self.path.write_bytes(self.authority.certificate)

    def issue(
        self,
        name: str,
        period: Period = VALID,
        *,
        hosts: Sequence[str] = HERE,
        uris: Sequence[str] = (),
        unit: str = "",
        password: str | None = None,
        file: str | None = None,
    ) -> Held:
        secret = None if password is None else password.encode()
        issued = self.authority.issue(name, period, unit=unit, hosts=hosts, uris=uris, password=secret)
        stem = file or name
        certificate, key = self.directory / f"{stem}.pem", self.directory / f"{stem}.key"
        for path, content in ((certificate, issued.certificate), (key, issued.key)):
            draft = path.with_suffix(".new")
            draft.write_bytes(content)
            draft.chmod(0o600)
            draft.replace(path)
        return Held(certificate, key, self.path)
