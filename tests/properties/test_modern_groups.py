"""KIP-848 groups under joins, leaves, crashes, lost answers, growing topics and reloads.

The consumers are models of real clients: what they own is what they believe to own. After each step nobody may own
what another one owns; after a quiet time everything is owned, and evenly.
"""

from __future__ import annotations

import random
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.coordinators.records import encode
from headrace.model.errors import ErrorCode, Refusal
from tests.unit.coordinators.modern_world import (
    SESSION_MS,
    Consumer,
    TopicsInMemory,
    World,
    compacted,
    durable,
    rebuilt,
)

if TYPE_CHECKING:
    from headrace.model.names import LogId

TOPICS = ("apples", "berries", "cherries")
CONSUMERS_MAX = 6
SETTLING_ROUNDS = 4 * CONSUMERS_MAX
SUBSCRIPTIONS = st.sampled_from([TOPICS[:1], TOPICS[:2], TOPICS, TOPICS[1:]])
REGEXES = st.sampled_from([None, None, None, "a.*", "(b|ch)erries"])
MEANS_REJOIN = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH}
SEEDS = st.integers(0, 2**32)
CHOICE = st.integers(0, CONSUMERS_MAX - 1)


class Groups(RuleBasedStateMachine):
    """All consumers may subscribe alike or each as it likes; the machine decides at the start."""

    @initialize(alike=st.booleans(), partitions=st.integers(0, 9), subscription=SUBSCRIPTIONS, count=st.integers(0, 5))
    def begin(self, alike: bool, partitions: int, subscription: tuple[str, ...], count: int) -> None:
        self.world = World(TopicsInMemory(apples=partitions, berries=3))
        self.alike = subscription if alike else None
        self.consumers: list[Consumer] = []
        self.born = 0
        self.crashed: set[str] = set()
        """Instance ids that somebody had who is gone without a word."""
        for place in range(count):
            self.join(subscription, None, is_static=place % 2 == 1)
        if count:
            self.rest()

    def chosen(self, choice: int) -> Consumer:
        return self.consumers[choice % len(self.consumers)]

    has_consumers = precondition(lambda self: bool(getattr(self, "consumers", None)))
    has_room = precondition(lambda self: len(getattr(self, "consumers", ())) < CONSUMERS_MAX)

    def beat(self, consumer: Consumer, is_lost: bool = False) -> None:
        """A heartbeat and its answer, if that arrives."""
        request = consumer.request()
        response = self.world.try_to_send(request)
        if isinstance(response, Refusal):
            if response.code is ErrorCode.UNRELEASED_INSTANCE_ID and consumer.instance_id in self.crashed:
                return  # until the session of the one before has run out
            assert response.code in MEANS_REJOIN, response
            assert request.member_epoch != 0, response
            assert response.code is not ErrorCode.FENCED_MEMBER_EPOCH or consumer.lost_in_a_row > 1, response
            consumer.lose_everything()
            return
        if is_lost:
            consumer.lose_answer()
            return
        assert response.member_epoch >= request.member_epoch, "epochs fall only by joining again"
        consumer.hear(response)

    @has_room
    @rule(subscription=SUBSCRIPTIONS, regex=REGEXES, is_static=st.booleans())
    def join(self, subscription: tuple[str, ...], regex: str | None, is_static: bool) -> None:
        self.born += 1
        name = f"consumer-{self.born}"
        instance_id = f"instance-{self.born}" if is_static else None
        names, regex = (subscription, regex) if self.alike is None else (self.alike, None)
        self.consumers.append(Consumer(name, *names, regex=regex, instance_id=instance_id))

    @rule(seed=SEEDS, loses_answers=st.booleans(), works_late=st.booleans())
    def turbulence(self, seed: int, loses_answers: bool, works_late: bool) -> None:
        """Heartbeats of anybody in any order, and every now and then something that moves partitions."""
        chance = random.Random(seed)
        for _ in range(60):
            if not self.consumers or chance.random() < 0.1:
                self.stir(chance)
            if self.consumers:
                consumer = chance.choice(self.consumers)
                self.beat(consumer, is_lost=loses_answers and chance.random() < 0.3)
                worker = chance.choice(self.consumers) if works_late else consumer
                worker.work()
            self.nobody_shares()

    def stir(self, chance: random.Random) -> None:
        choice, subscription = chance.randrange(CONSUMERS_MAX), TOPICS[: chance.randint(1, 3)]
        happening = chance.choice(["join", "join", "leave", "crash", "grow", "subscribe", "wait", "reload"])
        if happening == "join" or not self.consumers:
            if len(self.consumers) < CONSUMERS_MAX:
                self.join(subscription, chance.choice([None, None, "(b|ch)erries"]), chance.random() < 0.5)
        elif happening == "leave":
            self.leave(choice)
        elif happening == "crash":
            self.crash_or_restart(choice, chance.random() < 0.7)
        elif happening == "grow":
            self.grow_or_create(chance.choice(TOPICS), chance.randint(1, 4))
        elif happening == "subscribe":
            self.subscribe_to_others(choice, subscription)
        elif happening == "wait":
            self.pass_time(SESSION_MS // 3)
        else:
            self.reload(compact=chance.random() < 0.5)

    @has_consumers
    @rule(choice=CHOICE)
    def leave(self, choice: int) -> None:
        consumer = self.chosen(choice)
        self.consumers.remove(consumer)
        if consumer.epoch > 0:
            self.say_goodbye(consumer, -1)

    def say_goodbye(self, consumer: Consumer, epoch: int) -> None:
        response = self.world.try_to_send(replace(consumer.request(), member_epoch=epoch))
        if isinstance(response, Refusal):
            assert response.code in MEANS_REJOIN, response
        else:
            assert response.member_epoch == epoch

    @has_consumers
    @rule(choice=CHOICE, says_so=st.booleans())
    def crash_or_restart(self, choice: int, says_so: bool) -> None:
        """Static members come back under another member id; others are gone without a word."""
        consumer = self.chosen(choice)
        self.consumers.remove(consumer)
        if consumer.instance_id is None:
            return
        if says_so and consumer.epoch > 0:
            self.say_goodbye(consumer, -2)
        else:
            self.crashed.add(consumer.instance_id)
        self.born += 1
        heir = Consumer(
            f"consumer-{self.born}", *consumer.names, regex=consumer.regex, instance_id=consumer.instance_id
        )
        self.consumers.append(heir)

    @has_consumers
    @rule(choice=CHOICE, subscription=SUBSCRIPTIONS)
    def subscribe_to_others(self, choice: int, subscription: tuple[str, ...]) -> None:
        if self.alike is None:
            consumer = self.chosen(choice)
            consumer.names = subscription
            consumer.says_all = True

    @rule(by_ms=st.sampled_from([1_000, SESSION_MS // 3, SESSION_MS // 2, SESSION_MS]))
    def pass_time(self, by_ms: int) -> None:
        self.world.pass_time(by_ms)
        self.bury_the_expired()

    def bury_the_expired(self) -> None:
        """Whoever is out of the group by time may own what others own, until it hears of it: that is not counted."""
        members = self.world.group._state.members
        for consumer in self.consumers:
            if consumer.member_id not in members:
                consumer.lose_everything()

    @rule(name=st.sampled_from(TOPICS), more=st.integers(1, 5))
    def grow_or_create(self, name: str, more: int) -> None:
        topic = self.world.topics.named(name)
        if topic is None:
            self.world.topics.create(name, more)
        else:
            self.world.topics.grow(name, min(topic.partition_count + more, 20))
        self.world.topics_changed()

    @rule(name=st.sampled_from(TOPICS))
    def delete(self, name: str) -> None:
        if self.world.topics.named(name) is not None:
            self.world.topics.delete(name)
            self.world.topics_changed()

    @rule(compact=st.booleans())
    def reload(self, compact: bool) -> None:
        before = durable(self.world.group)
        self.world.reload(compact=compact)
        assert durable(self.world.group) == before

    def the_log_tells_the_state(self) -> None:
        for log in (self.world.log, compacted(self.world.log)):
            assert durable(rebuilt(log, self.world)) == durable(self.world.group)

    @has_consumers
    @rule()
    def rest(self) -> None:
        """With nothing new, everybody comes to own their part."""
        self.beat_for_a_while()
        if self.dead_members():
            return  # their sessions are not over
        self.everything_is_owned()
        assert self.world.group.state_name == "Stable"
        written = len(self.world.log)
        for consumer in self.consumers:
            self.beat(consumer)
        assert len(self.world.log) == written, "a quiet group writes nothing"

    def beat_for_a_while(self) -> None:
        """As long as the group needs to settle, counted from the last death that it noticed."""
        rounds_left, dead = SETTLING_ROUNDS, self.dead_members()
        while rounds_left:
            rounds_left -= 1
            self.world.pass_time(self.world.settings.consumer_heartbeat_interval_ms)
            self.bury_the_expired()
            for consumer in self.consumers:
                consumer.work()
                self.beat(consumer)
                consumer.work()
            if self.dead_members() != dead:
                rounds_left, dead = SETTLING_ROUNDS, self.dead_members()

    def dead_members(self) -> set[str]:
        alive = {consumer.member_id for consumer in self.consumers}
        return {member_id for member_id in self.world.group._state.members if member_id not in alive}

    def everything_is_owned(self) -> None:
        owned = [log_id for consumer in self.consumers for log_id in consumer.owned]
        assert set(owned) == self.world.topics.partitions(*self.world.group.subscribed_topics())
        for consumer in self.consumers:
            assert consumer.owned == consumer.told
        if self.alike is not None:
            shares = [len(consumer.owned) for consumer in self.consumers]
            assert max(shares) - min(shares) <= 1

    @precondition(lambda self: getattr(self, "alike", None) is not None)
    @has_consumers
    @has_room
    @rule()
    def join_moves_little(self) -> None:
        self.rest()
        before = dict(self.world.group._state.targets)
        if self.world.group.state_name != "Stable" or len(before) != len(self.consumers):
            return
        self.born += 1
        newcomer = Consumer(f"consumer-{self.born}", *(self.alike or ()))
        self.consumers.append(newcomer)
        self.beat(newcomer)
        after = self.world.group._state.targets
        moved = sum(len(share - after[member_id]) for member_id, share in before.items())
        count = sum(map(len, after.values()))
        assert moved <= ceil(count / len(after)) + 1

    @invariant()
    def nobody_shares(self) -> None:
        owners: dict[LogId, str] = {}
        for consumer in getattr(self, "consumers", ()):
            for log_id in consumer.owned:
                assert log_id not in owners, f"{consumer.member_id} and {owners[log_id]} own {log_id}"
                owners[log_id] = consumer.member_id

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.the_log_tells_the_state()
        self.world.pass_time(SESSION_MS)
        assert self.world.group.is_empty
        left = {encode(record)[0] for record in compacted(self.world.log) if record.value is not None}
        assert left <= {encode(record)[0] for record in self.world.group.tombstones()}


Groups.TestCase.settings = settings(max_examples=60, stateful_step_count=12, deadline=None)
TestModernGroups = Groups.TestCase
