"""The budget for requests: what is let in, who waits, and who has to go."""

from __future__ import annotations

import random

import pytest

from headrace.servers.kafka.limits.request_memory import (
    FREE_FRAME,
    LARGE_FRAME,
    MIB,
    PATIENCE,
    PATIENCE_WITH_OURS,
    PROGRESS_MIN,
    USUAL_SHARE,
    Holding,
    RequestMemory,
)

FRAME_MAX = 100 * MIB
LIMIT = 128 * MIB


class Client:
    """A connection that reads one frame after the other."""

    def __init__(self, memory: RequestMemory, address: str = "10.0.0.1") -> None:
        self.address = address
        self.unfinished_bytes = 0
        self.is_held_up = False
        self.grants = 0
        self.refusals: list[str] = []
        self.holding: Holding = memory.holding(self)

    def begin(self, size: int) -> bool:
        self.unfinished_bytes = FREE_FRAME
        return self.holding.reserve(size)

    def give_back_idle(self) -> None:
        self.holding.release()

    def memory_granted(self) -> None:
        self.grants += 1

    def refuse(self, reason: str) -> None:
        self.refusals.append(reason)
        self.leave()

    def finish(self) -> None:
        """Its request is served; the buffer is kept for the next."""
        self.unfinished_bytes = 0

    def leave(self) -> None:
        self.unfinished_bytes = 0
        self.holding.release()


@pytest.fixture
def memory() -> RequestMemory:
    return RequestMemory(LIMIT, FRAME_MAX)


def filled(memory: RequestMemory, count: int = 32, size: int = LARGE_FRAME, address: str = "10.0.0.1") -> list[Client]:
    """Everything is taken by frames that are on their way."""
    clients = [Client(memory, address) for _ in range(count)]
    assert all(client.begin(size) for client in clients)
    return clients


def test_small_frames_need_no_leave(memory: RequestMemory) -> None:
    filled(memory)
    assert memory.used == LIMIT
    assert Client(memory).begin(FREE_FRAME)
    assert memory.used == LIMIT


@pytest.mark.parametrize("setting", [0, 1, 50 * MIB])
def test_the_largest_frame_fits_whatever_is_set(setting: int) -> None:
    memory = RequestMemory(setting, FRAME_MAX)
    assert memory.limit == 4 + FRAME_MAX + USUAL_SHARE
    assert Client(memory).begin(4 + FRAME_MAX)


def test_without_limit_nobody_waits() -> None:
    memory = RequestMemory(-1, FRAME_MAX)
    assert all(Client(memory).begin(FRAME_MAX) for _ in range(1000))


def test_whoever_does_not_fit_waits_until_something_comes_back(memory: RequestMemory) -> None:
    first, *_ = filled(memory)
    client = Client(memory)
    assert not client.begin(MIB)
    assert not client.holding.reserve(MIB), "it is in line, and not twice"
    assert memory.has_waiters
    first.leave()
    assert client.grants == 1
    assert client.holding.reserve(MIB)
    assert not memory.has_waiters
    assert memory.used == LIMIT - LARGE_FRAME + MIB


def test_kept_buffers_are_given_back_before_anybody_waits(memory: RequestMemory) -> None:
    clients = filled(memory)
    for client in clients[:2]:
        client.finish()
    assert Client(memory).begin(MIB)
    assert [client.holding.size for client in clients[:3]] == [0, LARGE_FRAME, LARGE_FRAME], "and no more than needed"


def test_large_frames_leave_a_share_for_others(memory: RequestMemory) -> None:
    assert Client(memory).begin(FRAME_MAX)
    assert not Client(memory).begin(LARGE_FRAME + 1)
    assert all(Client(memory).begin(MIB) for _ in range(USUAL_SHARE // MIB))


def test_others_do_not_starve_a_large_frame(memory: RequestMemory) -> None:
    """While it waits they keep to their share, so that theirs drains."""
    others = filled(memory, 100, MIB)
    large = Client(memory)
    assert not large.begin(FRAME_MAX)
    newcomers = []
    for other in others:
        other.leave()
        newcomers.append(Client(memory))
        newcomers[-1].begin(MIB)
    assert large.grants == 1
    assert sum(client.holding.size for client in newcomers) == LIMIT - FRAME_MAX


def test_the_line_goes_round_by_address(memory: RequestMemory) -> None:
    holders = filled(memory)
    crowd = [Client(memory, "10.0.0.1") for _ in range(50)]
    for client in crowd:
        assert not client.begin(LARGE_FRAME)
    other = Client(memory, "10.0.0.2")
    assert not other.begin(LARGE_FRAME)
    holders[0].leave()
    holders[1].leave()
    assert other.grants == 1, "it waits behind one of each other address at most"


def test_an_address_has_at_most_half_while_others_wait(memory: RequestMemory) -> None:
    filled(memory, 16, address="10.0.0.1")
    second = filled(memory, 16, address="10.0.0.2")
    crowd = [Client(memory, "10.0.0.1") for _ in range(5)]
    other = Client(memory, "10.0.0.3")
    for client in (*crowd, other):
        assert not client.begin(LARGE_FRAME)
    second[0].leave()
    assert [client.grants for client in crowd] == [0] * 5
    assert other.grants == 1


def test_plain_bytes_count_too(memory: RequestMemory) -> None:
    assert all(memory.try_take(MIB, "10.0.0.1") for _ in range(USUAL_SHARE // MIB))
    assert memory.try_take(LIMIT - USUAL_SHARE)
    assert not memory.try_take(1)
    client = Client(memory)
    assert not client.begin(MIB)
    memory.give_back(MIB, "10.0.0.1")
    assert client.grants == 1
    client.leave()
    memory.give_back(LIMIT - USUAL_SHARE)
    for _ in range(USUAL_SHARE // MIB - 1):
        memory.give_back(MIB, "10.0.0.1")
    assert memory.used == 0


def test_nobody_overtakes_those_in_line_by_taking_plain_bytes(memory: RequestMemory) -> None:
    filled(memory, 31)
    assert not Client(memory, "10.0.0.2").begin(FRAME_MAX)
    waiting = Client(memory, "10.0.0.2")
    assert not waiting.begin(LARGE_FRAME), "a large one waits, and the share of the others is used up"
    assert not memory.try_take(10)


def test_a_client_that_stops_in_the_middle_has_to_go_if_others_wait(memory: RequestMemory) -> None:
    silent, *others = filled(memory)
    for _ in range(PATIENCE * 2):
        memory.look_for_slow()
    assert not silent.refusals, "nobody waits"
    waiting = Client(memory, "10.0.0.1")
    assert not waiting.begin(MIB)
    for _ in range(PATIENCE):
        assert not waiting.grants
        for client in others:
            client.unfinished_bytes += PROGRESS_MIN
        memory.look_for_slow()
    assert len(silent.refusals) == 1
    assert waiting.grants == 1
    assert not any(client.refusals for client in others)


def test_only_as_many_have_to_go_as_is_needed(memory: RequestMemory) -> None:
    silent = filled(memory)
    waiting = Client(memory)
    assert not waiting.begin(LARGE_FRAME)
    for _ in range(PATIENCE):
        memory.look_for_slow()
    assert sum(len(client.refusals) for client in silent) == 1
    assert waiting.grants == 1


def test_an_address_that_has_more_than_half_is_given_less_time(memory: RequestMemory) -> None:
    silent = filled(memory)
    honest = Client(memory, "10.0.0.2")
    assert not honest.begin(MIB)
    memory.look_for_slow()
    memory.look_for_slow()
    assert honest.grants == 1
    assert sum(len(client.refusals) for client in silent) == 1


def test_who_cannot_go_on_because_of_us_is_given_more_time(memory: RequestMemory) -> None:
    clients = filled(memory)
    for client in clients:
        client.is_held_up = True
    waiting = Client(memory)
    assert not waiting.begin(MIB)
    for _ in range(PATIENCE_WITH_OURS - 1):
        memory.look_for_slow()
    assert not waiting.grants
    memory.look_for_slow()
    assert waiting.grants == 1


def test_kept_buffers_that_wait_for_more_do_not_lock_each_other_out_for_ever(memory: RequestMemory) -> None:
    """Each holds a part, which it kept from its last request, and wants more than is left."""
    clients = filled(memory, 128, MIB)
    for client in clients:
        assert not client.begin(2 * MIB)
    for _ in range(PATIENCE_WITH_OURS + 64):
        memory.look_for_slow()
        for client in clients:
            if client.grants:
                client.leave()
    assert not memory.has_waiters
    served = sum(client.grants for client in clients)
    assert served + sum(len(client.refusals) for client in clients) == 128
    assert served > 100


def test_whoever_leaves_leaves_the_line(memory: RequestMemory) -> None:
    first, *_ = filled(memory)
    waiting = Client(memory)
    assert not waiting.begin(MIB)
    waiting.leave()
    assert not memory.has_waiters
    first.leave()
    assert not waiting.grants


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_the_sums_are_right_and_nobody_waits_for_nothing(seed: int) -> None:
    chance = random.Random(seed)
    memory = RequestMemory(LIMIT, FRAME_MAX)
    clients = [Client(memory, f"10.0.0.{chance.randrange(4)}") for _ in range(60)]
    for _ in range(3000):
        client = chance.choice(clients)
        match chance.randrange(6):
            case 0 | 1 | 2 if not client.unfinished_bytes:
                client.begin(chance.choice([10, 100_000, MIB, 3 * MIB, 8 * MIB, FRAME_MAX]))
            case 3 if not client.holding.wanted:
                client.finish()
            case 4:
                client.leave()
            case 5:
                memory.look_for_slow()
        assert memory.used == sum(it.holding.size for it in clients) <= LIMIT
        assert sum(memory.used_by(f"10.0.0.{last}") for last in range(4)) == memory.used
    for client in clients:
        if not client.holding.wanted:
            client.leave()
    while memory.has_waiters:
        granted = [client for client in clients if client.holding.size and not client.holding.wanted]
        assert granted, "everybody waits and nothing is used"
        for client in granted:
            client.leave()
    for client in clients:
        client.leave()
    assert memory.used == 0
