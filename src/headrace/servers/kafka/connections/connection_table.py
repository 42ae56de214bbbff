"""The connections of a listener by the host that they come from: how many each may have, and who makes way for whom.

At the limit a newcomer is not simply refused: one host could take every place. It takes the place of a connection of
the host that has most, if that has more than its own. But whoever has been here for a while and has never asked for
anything goes first, of whatever host: many hosts with one silent connection each could take every place as well. All
are found without a look at all connections.
"""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv4Address, ip_address
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LOOKED_AT: Final = 32  # connections of one host, for the one that has been silent longest: newcomers may be many
SILENT_S: Final = 5.0  # a client that means it has asked for something by then


class Seat(Protocol):
    """A connection."""

    @property
    def address(self) -> str: ...

    @property
    def last_active_s(self) -> float: ...

    @property
    def has_asked(self) -> bool:
        """True once it has sent a whole request, and has logged in where it has to."""
        ...


SeatT = TypeVar("SeatT", bound=Seat)


class ConnectionTable(Generic[SeatT]):
    """`per_host` is how many connections a host may have; `overrides` say so for some of them."""

    def __init__(self, size_max: int, per_host: int, overrides: Mapping[str, int] | None = None) -> None:
        self.size_max = size_max
        self._per_host = per_host
        self._overrides = {host_of(address): count for address, count in (overrides or {}).items()}
        self._seats: dict[SeatT, str] = {}
        self._hosts: dict[str, OrderedDict[SeatT, None]] = {}
        """In the order in which they were last looked at."""
        self._never_asked: OrderedDict[SeatT, float] = OrderedDict()
        """When each came, which is their order: who then sends a byte now and again is no less silent."""
        self._hosts_with: dict[int, dict[str, None]] = {}
        self._most = 0

    def __len__(self) -> int:
        return len(self._seats)

    def seats(self) -> list[SeatT]:
        return list(self._seats)

    def count_of(self, address: str) -> int:
        return len(self._hosts.get(host_of(address), ()))

    def add(self, seat: SeatT) -> None:
        host = host_of(seat.address)
        self._seats[seat] = host
        seats = self._hosts.setdefault(host, OrderedDict())
        seats[seat] = None
        if not seat.has_asked:
            self._never_asked[seat] = seat.last_active_s
        self._recount(host, len(seats) - 1, len(seats))

    def asked(self, seat: SeatT) -> None:
        """For the first time; it may have lost its place already."""
        self._never_asked.pop(seat, None)

    def remove(self, seat: SeatT) -> None:
        host = self._seats.pop(seat, None)
        if host is None:
            return
        self._never_asked.pop(seat, None)
        seats = self._hosts[host]
        del seats[seat]
        self._recount(host, len(seats) + 1, len(seats))
        if not seats:
            del self._hosts[host]

    def problem_of(self, newcomer: SeatT) -> str | None:
        """Why this one, which is in the table already, cannot stay; whoever else comes."""
        host = self._seats[newcomer]
        allowed = self._overrides.get(host, self._per_host)
        if len(self._hosts[host]) > allowed:
            return f"there are {allowed} connections from {host}, and no more are allowed (max.connections.per.ip)"
        return None

    def who_goes(self, newcomer: SeatT, now_s: float) -> SeatT:
        """With one more than `size_max`: the newcomer itself, if nobody else has to."""
        host = self._seats[newcomer]
        has_others_place = self._most > len(self._hosts[host])
        found = self._longest_silent(next(iter(self._hosts_with[self._most])) if has_others_place else host)
        first = next(iter(self._never_asked), newcomer)
        for silent in (found, first):
            if self._never_asked.get(silent, now_s) < now_s - SILENT_S:
                return silent
        return found if has_others_place else newcomer

    def _longest_silent(self, host: str) -> SeatT:
        """Of those looked at, who has asked for nothing goes before who has."""
        seats = self._hosts[host]
        looked_at = []
        for _ in range(min(LOOKED_AT, len(seats))):
            seat, _ = seats.popitem(last=False)
            seats[seat] = None  # the next look is at others
            looked_at.append(seat)
        return min(looked_at, key=lambda seat: (seat.has_asked, seat.last_active_s))

    def _recount(self, host: str, before: int, after: int) -> None:
        if before:
            hosts = self._hosts_with[before]
            del hosts[host]
            if not hosts:
                del self._hosts_with[before]
        if after:
            self._hosts_with.setdefault(after, {})[host] = None
        if after > self._most:
            self._most = after
        elif before == self._most and before not in self._hosts_with:
            self._most = after  # it alone had most, and one connection less is the next that anybody can have


def host_of(address: str) -> str:
    """Who may be behind an address: one of IPv6 is one of very many that its host has."""
    try:
        ip = ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, IPv4Address):
        return address
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return f"{ip.exploded[:19]}::/64"


def parse_overrides(texts: Sequence[str]) -> dict[str, int]:
    """From `address:count`, as `max.connections.per.ip.overrides` lists them."""
    overrides = {}
    for text in texts:
        address, _, count = text.rpartition(":")
        overrides[address.strip("[]")] = int(count)
    return overrides
