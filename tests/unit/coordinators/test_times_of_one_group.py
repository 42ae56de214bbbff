from __future__ import annotations

from headrace.coordinators.groups.modern.modern_group import ModernGroup
from headrace.coordinators.groups.settings import OwnTimes
from tests.unit.coordinators.modern_world import GROUP, SESSION_MS, TopicsInMemory, World, beat, join


def test_times_of_its_own_hold_from_the_next_heartbeat_on() -> None:
    topics = TopicsInMemory(events=2)
    world = World(topics)
    times: dict[str, OwnTimes] = {}
    world.group = ModernGroup(GROUP, world.settings, topics, times.get)
    joined = world.send(join("a", "events"))
    assert joined.heartbeat_interval_ms == world.settings.consumer_heartbeat_interval_ms
    times[GROUP] = OwnTimes(session_timeout_ms=SESSION_MS + 10_000, heartbeat_interval_ms=7_000)
    assert world.send(beat("a", joined.member_epoch)).heartbeat_interval_ms == 7_000
    world.pass_time(SESSION_MS + 9_999)
    assert not world.group.is_empty
    world.pass_time(1)
    assert world.group.is_empty
