"""The keys that tokens are signed with: read at the start, and again when they may have changed."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from headrace.access.authentication.bearer_tokens import UNKNOWN_KEY, NoKeys, TokenKeys, checked, keys_of
from headrace.access.authentication.exchange import Denied
from headrace.broker.listeners.token_settings import UnusableKeys
from headrace.runtime.tls.fetching import fetch

if TYPE_CHECKING:
    from headrace.access.authentication.exchange import Accepted
    from headrace.broker.listeners.token_settings import TokenSettings
    from headrace.runtime.clock import Clock
    from headrace.runtime.threads import Threads

log = logging.getLogger(__name__)

BYTES_MAX: Final = 1 << 20  # a hundred keys are 50 KB
LOOK_S: Final = 3.0
AGAIN_S: Final = 10.0
"""After which keys are fetched again because a token names one that is not known: anybody can make such tokens."""
LANE: Final = "keys of tokens"


class TokenKeyring:
    """Of one listener."""

    def __init__(self, settings: TokenSettings, clock: Clock, threads: Threads) -> None:
        self._settings = settings
        self._clock = clock
        self._threads = threads
        self._keys = TokenKeys({})
        self._read_s = 0.0
        self._misses_a_key = False
        self._trouble = ""

    @property
    def _is_file(self) -> bool:
        return self._settings.url.startswith("file:")

    def check(self, token: str) -> Accepted | Denied:
        """Whose it is. Called in a thread."""
        outcome = checked(token, self._keys, self._settings.rules, self._clock.wall_ms() / 1000)
        if isinstance(outcome, Denied) and outcome.reason == UNKNOWN_KEY:
            self._misses_a_key = True
        return outcome

    async def load(self) -> None:
        """For the first time. Raises UnusableKeys for a file; a server may be there later."""
        await self._refresh()
        if self._trouble and self._is_file:
            raise UnusableKeys(self._trouble)

    async def keep_fresh(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            since_s = self._clock.monotonic_s() - self._read_s
            is_missed = (self._misses_a_key or bool(self._trouble)) and since_s >= AGAIN_S
            if self._is_file or is_missed or since_s >= self._settings.refresh_s:
                await self._refresh()

    async def _refresh(self) -> None:
        self._read_s, self._misses_a_key = self._clock.monotonic_s(), False
        try:
            self._keys = keys_of((await self._threads.run(self._read, lane=LANE)).decode())
        except (OSError, NoKeys, UnicodeDecodeError) as error:
            trouble = f"the keys of tokens at {self._settings.url} cannot be used: {_words(error)}"
            if trouble != self._trouble:  # told once
                log.error("%s; those that were known stay in force", trouble)  # noqa: TRY400
            self._trouble = trouble
        else:
            self._trouble = ""

    def _read(self) -> bytes:
        if not self._is_file:
            return fetch(self._settings.url, BYTES_MAX)
        with open(unquote(urlsplit(self._settings.url).path), "rb") as file:
            content = file.read(BYTES_MAX + 1)
        if len(content) > BYTES_MAX:
            raise OSError(f"it has more than {BYTES_MAX} bytes")
        return content


def _words(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is no text"
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
