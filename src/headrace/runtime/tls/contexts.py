"""What TLS uses now: contexts that follow their files. A certificate is renewed by replacing its file."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.runtime.tls.certificates import end_of_validity_s, first_certificate
from headrace.runtime.tls.settings import UnusableTls, client_context, server_context

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.runtime.network import PeerCertificate
    from headrace.runtime.threads import Threads
    from headrace.runtime.tls.settings import TlsSettings

    Check = Callable[[PeerCertificate | None], str | None]

log = logging.getLogger(__name__)

LOOK_S: Final = 3.0  # between two looks at the files

Stamp = tuple[tuple[int, int, int] | None, ...]


class _Tls:
    def __init__(self, settings: TlsSettings, make: Callable[[], ssl.SSLContext], check: Check) -> None:
        self._settings = settings
        self._make = make
        self.problem_with = check
        self._stamp = self._look()
        self.context = make()
        """For new connections; those that exist keep theirs."""
        self.problem_of_files = ""
        """Why the files as they are now are not used; empty if they are."""
        self.reloads = 0
        self.failed_reloads = 0

    async def keep_fresh(self, threads: Threads, look_s: float = LOOK_S) -> None:
        """For ever: use what the files have become. Files that cannot be used change nothing."""
        while True:
            await asyncio.sleep(look_s)
            await self.refresh(threads)

    async def refresh(self, threads: Threads) -> None:
        """Look once."""
        stamp = await threads.run(self._look)
        if stamp == self._stamp:
            return
        self._stamp = stamp  # files that cannot be used are told of once, and not until they change again
        try:
            self.context = await threads.run(self._made_anew)
        except UnusableTls as trouble:
            self.failed_reloads += 1
            self.problem_of_files = str(trouble)
            log.error("the changed certificates are not used, and the old ones stay in force: %s", trouble)  # noqa: TRY400
        else:
            self.reloads += 1
            self.problem_of_files = ""
            log.info("new connections use the changed certificates: %s", ", ".join(self._settings.files()))

    def _made_anew(self) -> ssl.SSLContext:
        """Whoever has put an old certificate in the place of one that is still valid has mixed up two files."""
        context, own = self._make(), self._settings.own
        if own is not None:
            try:
                end_s = end_of_validity_s(first_certificate(own.read()))
            except (ValueError, IndexError) as error:
                raise UnusableTls(f"the certificate in {own} does not say until when it is valid") from error
            if end_s < time.time():
                raise UnusableTls(f"the certificate in {own} has expired: put one there that is valid")
        return context

    def _look(self) -> Stamp:
        return tuple(_stamp_of(path) for path in self._settings.files())


class ServerTls(_Tls):
    """For listeners."""

    def __init__(
        self,
        settings: TlsSettings,
        *,
        client_auth: ssl.VerifyMode = ssl.CERT_NONE,
        problem_with: Check = lambda _: None,
    ) -> None:
        """`problem_with` says why somebody is not accepted whose certificate is valid. Raises UnusableTls."""
        super().__init__(settings, partial(server_context, settings, client_auth=client_auth), problem_with)
        self.handshakes = 0
        self.failed_handshakes = 0


class ClientTls(_Tls):
    """For callers."""

    def __init__(
        self,
        settings: TlsSettings,
        *,
        expects_host: bool = True,
        verifies: bool = True,
        problem_with: Check = lambda _: None,
    ) -> None:
        """Without `expects_host` a certificate may be for any host, without `verifies` by anybody: then TLS protects
        from nobody who can reach the line. Raises UnusableTls."""
        make = partial(client_context, settings, expects_host=expects_host, verifies=verifies)
        super().__init__(settings, make, problem_with)


def _stamp_of(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
