"""How fast connections may come: to a node, and from each address (KIP-612)."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Final

from headrace.access.quotas.buckets import Bucket, Buckets, QuotaWindow
from headrace.access.quotas.keys import QuotaKey
from headrace.access.quotas.resolution import quota_of_address

if TYPE_CHECKING:
    from headrace.broker.metadata.view import MetadataView
    from headrace.runtime.clock import Clock

WAIT_MAX_S: Final = (
    5.0  # half of the time in which somebody has to log in; who would wait longer is better told at once
)


class ConnectionRates:
    """A part of a node. Nodes among themselves are not counted."""

    def __init__(self, view: MetadataView, clock: Clock) -> None:
        self._view = view
        self._clock = clock
        settings = view.settings
        self._window_s = QuotaWindow(settings.quota_window_num, settings.quota_window_size_seconds).total_s
        self._of_node = self.bucket(settings.max_connection_creation_rate)
        self._of_addresses: Buckets[str] = Buckets(self._window_s, are_full=True)

    def bucket(self, rate: int) -> Bucket:
        """For a listener that has a rate of its own. Full: after a start of the node all its clients come at once."""
        return Bucket(rate, self._window_s, self._clock.monotonic_s(), is_full=True)

    def came(self, host: str, of_listener: Bucket | None = None) -> float | None:
        """For how many seconds one more of this host should not be read from; None if that is too long, so that it is
        not to stay. Then it does not count."""
        now_s = self._clock.monotonic_s()
        rate = self._view.settings.max_connection_creation_rate
        if self._of_node.rate != rate:
            self._of_node.change_rate(rate, now_s)
        buckets = [self._of_node]
        if of_listener is not None:
            buckets.append(of_listener)
        of_address = self._of_address(host, now_s)
        if of_address is not None:
            buckets.append(of_address)
        if max(bucket.owed_s(now_s) for bucket in buckets) > WAIT_MAX_S:
            return None
        return max(bucket.take(1, now_s) for bucket in buckets)

    def _of_address(self, host: str, now_s: float) -> Bucket | None:
        quotas = self._view.image.access.quotas
        if not quotas:
            return None
        address = _plain(host)
        quota = quota_of_address(quotas, QuotaKey.CONNECTIONS, address)
        return None if quota is None else self._of_addresses.of(address, quota.rate, now_s)


def _plain(host: str) -> str:
    """As quotas name it: an IPv4 address that arrives over IPv6 is itself."""
    try:
        address = ip_address(host)
    except ValueError:
        return host  # the simulator's hosts have names
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)
