"""Who may connect, and who makes way for whom at the limit."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import pytest

from headrace.metadata.configs.node_configs import NODE_CONFIGS
from headrace.model.errors import Refusal
from headrace.servers.kafka.connections.connection_table import (
    LOOKED_AT,
    SILENT_S,
    ConnectionTable,
    host_of,
    parse_overrides,
)

NOW_S = 1000.0
MANY = 1 << 31


@dataclass(eq=False)
class Seat:
    address: str
    last_active_s: float = NOW_S
    has_asked: bool = True


def table_of(*seats: Seat, per_host: int = MANY, overrides: dict[str, int] | None = None) -> ConnectionTable[Seat]:
    """A full one."""
    table: ConnectionTable[Seat] = ConnectionTable(len(seats), per_host, overrides)
    for seat in seats:
        table.add(seat)
    return table


def arrive(table: ConnectionTable[Seat], address: str) -> tuple[Seat, Seat]:
    """The newcomer, and who has to go for it."""
    newcomer = Seat(address)
    table.add(newcomer)
    goes = table.who_goes(newcomer, NOW_S)
    table.remove(goes)
    return newcomer, goes


def test_a_newcomer_takes_the_place_of_the_longest_silent_one_of_the_host_that_has_most() -> None:
    greedy = [Seat("10.0.0.1", NOW_S - number) for number in range(10)]
    others = [Seat("10.0.0.2", NOW_S - 500) for _ in range(5)]
    table = table_of(*greedy, *others)
    assert arrive(table, "10.0.0.3")[1] is greedy[9]
    assert arrive(table, "10.0.0.2")[1] is greedy[8]


def test_whoever_has_most_makes_nobody_go() -> None:
    table = table_of(*(Seat("10.0.0.1") for _ in range(10)), *(Seat("10.0.0.2") for _ in range(10)))
    newcomer, goes = arrive(table, "10.0.0.1")
    assert goes is newcomer


def test_hosts_end_up_with_equal_shares() -> None:
    table = table_of(*(Seat("10.0.0.1") for _ in range(90)))
    for _ in range(200):
        arrive(table, "10.0.0.2")
        arrive(table, "10.0.0.3")
    assert [table.count_of(f"10.0.0.{last}") for last in (1, 2, 3)] == [30, 30, 30]


def test_silence_since_the_beginning_makes_way_for_others_of_the_same_host() -> None:
    asked = [Seat("10.0.0.1", NOW_S - 900) for _ in range(5)]
    fresh = Seat("10.0.0.1", NOW_S - SILENT_S / 2, has_asked=False)
    silent = Seat("10.0.0.1", NOW_S - SILENT_S * 2, has_asked=False)
    table = table_of(*asked, fresh, silent)
    assert arrive(table, "10.0.0.1")[1] is silent
    newcomer, goes = arrive(table, "10.0.0.1")
    assert goes is newcomer, "the others have asked for something, or may still do so"


def test_silence_since_the_beginning_makes_way_whatever_host_it_comes_from() -> None:
    """One connection of each of very many hosts: none has more than the newcomer's."""
    active = [Seat(f"10.0.1.{number}", NOW_S - 900) for number in range(5)]
    silent = [Seat(f"10.0.2.{number}", NOW_S - SILENT_S * (9 - number), has_asked=False) for number in range(5)]
    table = table_of(*active, *silent)
    assert [arrive(table, f"10.0.3.{number}")[1] for number in range(5)] == silent
    newcomer, goes = arrive(table, "10.0.3.9")
    assert goes is newcomer, "the others have asked for something"


def test_a_crowd_that_asks_goes_after_a_stranger_that_never_did() -> None:
    crowd = [Seat("10.0.0.1", NOW_S - number) for number in range(10)]
    silent = Seat("10.0.0.2", NOW_S - SILENT_S * 2, has_asked=False)
    fresh = Seat("10.0.0.3", NOW_S - SILENT_S / 2, has_asked=False)
    table = table_of(*crowd, silent, fresh)
    assert arrive(table, "10.0.0.4")[1] is silent
    assert arrive(table, "10.0.0.5")[1] is crowd[9], "a fresh one may still ask"


def test_silence_in_the_crowd_goes_before_silence_elsewhere() -> None:
    crowd = [Seat("10.0.0.1", NOW_S - 10 * SILENT_S, has_asked=False) for _ in range(3)]
    longer = Seat("10.0.0.2", NOW_S - 20 * SILENT_S, has_asked=False)
    table = table_of(longer, *crowd)
    assert arrive(table, "10.0.0.3")[1] in crowd


def test_whoever_asks_is_silent_no_more_and_a_byte_now_and_again_is_no_question() -> None:
    asks = Seat("10.0.0.1", NOW_S - SILENT_S * 3, has_asked=False)
    trickles = Seat("10.0.0.2", NOW_S - SILENT_S * 2, has_asked=False)
    table = table_of(asks, trickles)
    asks.has_asked = True
    table.asked(asks)
    asks.last_active_s = trickles.last_active_s = NOW_S
    assert arrive(table, "10.0.0.3")[1] is trickles
    table.asked(trickles)  # too late


def test_a_newcomer_looks_at_few_of_many() -> None:
    """And each look is at others, so that all have their turn."""
    looked_at: Counter[int] = Counter()

    class Watched(Seat):
        number = 0

        @property
        def last_active_s(self) -> float:  # type: ignore[override]
            looked_at[self.number] += 1
            return NOW_S

        @last_active_s.setter
        def last_active_s(self, _: float) -> None: ...

    seats = [Watched("10.0.0.1") for _ in range(10 * LOOKED_AT)]
    for number, seat in enumerate(seats):
        seat.number = number
    table = table_of(*seats)
    for address in range(5):
        arrive(table, f"10.0.1.{address}")
    assert looked_at.total() == 5 * LOOKED_AT
    assert max(looked_at.values()) == 1


def test_a_host_has_no_more_than_it_may() -> None:
    table = table_of(*(Seat("10.0.0.1") for _ in range(3)), per_host=3, overrides={"10.0.0.9": 1, "::1": 2})
    newcomer = Seat("10.0.0.1")
    table.add(newcomer)
    assert "3 connections from 10.0.0.1" in (table.problem_of(newcomer) or "")
    table.remove(newcomer)
    for address, allowed in (("10.0.0.9", 1), ("::1", 2), ("10.0.0.8", 3)):
        seats = [Seat(address) for _ in range(allowed + 1)]
        for seat in seats[:allowed]:
            table.add(seat)
            assert table.problem_of(seat) is None
        table.add(seats[-1])
        assert table.problem_of(seats[-1]) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
    ],
)
def test_addresses_of_one_host(one: str, other: str) -> None:
    assert host_of(one) == host_of(other)


def test_addresses_of_different_hosts() -> None:
    assert len({host_of(it) for it in ("10.0.0.1", "10.0.0.2", "2001:db8:1:2::1", "2001:db8:1:3::1", "unknown")}) == 5


def test_overrides_are_read_as_kafka_writes_them() -> None:
    key = NODE_CONFIGS["max.connections.per.ip.overrides"]
    texts = key.parse("127.0.0.1:200, ::1:5,[2001:db8::1]:7")
    assert isinstance(texts, tuple)
    assert parse_overrides(texts) == {"127.0.0.1": 200, "::1": 5, "2001:db8::1": 7}
    assert parse_overrides(()) == {}
    for nonsense in ("127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:-1"):
        with pytest.raises(Refusal, match="address:count"):
            key.parse(nonsense)


@pytest.mark.parametrize("seed", range(10))
def test_whoever_comes_and_goes_the_counts_are_right(seed: int) -> None:
    chance = random.Random(seed)
    table: ConnectionTable[Seat] = ConnectionTable(50, MANY)
    seats: list[Seat] = []
    for _ in range(2000):
        if seats and chance.random() < 0.4:
            table.remove(seats.pop(chance.randrange(len(seats))))
        else:
            newcomer = Seat(f"10.0.0.{chance.randrange(6)}", chance.random() * NOW_S, chance.random() < 0.5)
            table.add(newcomer)
            seats.append(newcomer)
            if len(table) > table.size_max:
                before = Counter(seat.address for seat in seats)
                goes = table.who_goes(newcomer, NOW_S)
                is_silent = not goes.has_asked and goes.last_active_s < NOW_S - SILENT_S
                assert is_silent or goes.address == newcomer.address or before[goes.address] == max(before.values())
                table.remove(goes)
                seats.remove(goes)
        counts = Counter(seat.address for seat in seats)
        assert table._most == max(counts.values(), default=0)
        assert {address: table.count_of(address) for address in counts} == dict(counts)
    for seat in seats:
        table.remove(seat)
    assert (len(table), table._most, table._hosts, table._hosts_with) == (0, 0, {}, {})
    assert not table._never_asked
