"""How a node leaves for a while: others take over first, if there are enough of them to decide that."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.broker.membership.peers import Peers
    from headrace.broker.membership.registration import Registration
    from headrace.broker.metadata.quorum import Quorum

log = logging.getLogger(__name__)

LEAVE_S: Final = 5.0  # for others to take over; after that they will when they miss this node


class Leaving:
    def __init__(self, registration: Registration, quorum: Quorum, peers: Peers) -> None:
        self._registration = registration
        self._quorum = quorum
        self._peers = peers
        self._patience: asyncio.Timeout | None = None
        """While this node leaves."""
        self.has_begun = False

    async def leave(self) -> None:
        """Let others take over, if they do so in time. Where too few are left to decide anything, nobody is waited
        for: a whole cluster that is stopped at once has a last node."""
        self.has_begun = True
        await self._peers.look_for_absent()
        try:
            async with asyncio.timeout(LEAVE_S if self._can_decide() else 0) as self._patience:
                await self._registration.leave()
        except TimeoutError:
            if self._can_decide():
                log.warning("the controller has not taken over in time; others will when they miss this node")
            else:
                log.info("nobody is left to take over")
        finally:
            self._patience = None

    def _can_decide(self) -> bool:
        membership = self._quorum.raft.membership
        return membership.is_majority({*membership.voter_ids} - self._peers.absent)

    def somebody_is_gone(self) -> None:
        """Too few may be left now."""
        if self._patience is not None and not self._patience.expired() and not self._can_decide():
            self._patience.reschedule(0)
