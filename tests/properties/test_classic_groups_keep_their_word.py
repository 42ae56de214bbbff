"""Clients that join, sync, beat, leave, restart, repeat themselves and fall silent, while coordinators come and go.

Whatever happens, in whatever order:
- every request is answered exactly once;
- a generation has one leader, and each of its members is given what that leader decided, and nothing else, also by a
  coordinator that knows the decision only from the log;
- generations never go back;
- the log alone gives the same group.

The model knows a member as a *person*: its instance if it is static, as that outlives its ids, or else its id.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.coordinators.groups.classic.joining import NEW_MEMBER_JOIN_TIMEOUT_MS
from headrace.model.errors import ErrorCode, Refusal
from tests.unit.coordinators.classic_scene import REBALANCE_MS, SESSION_MS, Call, Scene, reloaded

CLIENTS = st.integers(0, 4)
INSTANCES = [None, None, None, "one", "two"]
OFFERS = st.sampled_from(
    [{"range": b"r"}, {"range": b"r", "sticky": b"s"}, {"sticky": b"s", "range": b"r"}, {"range": b"R"}]
)
MOMENTS_MS = st.sampled_from([1, 500, 3_000, SESSION_MS // 2])
STEPS_MS = st.sampled_from([SESSION_MS, REBALANCE_MS, NEW_MEMBER_JOIN_TIMEOUT_MS])


@dataclass
class Client:
    instance: str | None
    protocols: dict[str, bytes]
    version: int
    member_id: str = ""
    generation: int = -1
    """Of the last join that was answered; -1 if it must join."""
    protocol: str = ""
    heard_of: tuple[str, ...] = ()
    """Not empty if it leads."""
    has_share: bool = False
    joining: Call | None = None
    syncing: Call | None = None


class ClassicGroups(RuleBasedStateMachine):
    @initialize(delay_ms=st.sampled_from([0, 3_000]), max_size=st.sampled_from([100, 100, 3]))
    def begin(self, delay_ms: int, max_size: int) -> None:
        self.limits = {"initial_rebalance_delay_ms": delay_ms, "max_size": max_size}
        self.scene = Scene(**self.limits)
        self.clients = [Client(instance, {"range": b"r"}, 9) for instance in INSTANCES]
        self.person_of: dict[str, str] = {}
        self.leader_of: dict[int, str] = {}
        """Of each generation since this coordinator took over."""
        self.decided: dict[tuple[int, str], bytes] = {}
        """What the leader of a generation gave to a person."""
        self.syncs: list[tuple[Call, int, str]] = []
        """Not yet answered, each with its generation and person."""
        self.newest_generation = 0
        self.decisions = 0

    # What clients do

    @rule(rounds=st.integers(1, 5), clients=st.permutations(range(len(INSTANCES))), pause_ms=MOMENTS_MS)
    def all_carry_on(self, rounds: int, clients: list[int], pause_ms: int) -> None:
        for _ in range(rounds):
            for index in clients:
                self.carry_on(index)
            self.scene.pass_time(pause_ms)
            self.listen()

    @rule()
    def all_carry_on_for_long(self) -> None:
        self.all_carry_on(8, list(range(len(INSTANCES))), 3_000)

    @rule(index=CLIENTS)
    def carry_on(self, index: int) -> None:
        """What a sound client would do next."""
        client = self.clients[index]
        if client.joining is not None or client.syncing is not None:
            return
        if client.generation == -1:
            self.join(client)
        elif not client.has_share:
            self.sync(client)
        else:
            code = self.scene.beat(client.member_id, client.generation, instance=client.instance)
            may_commit = self.commit_code(client, client.generation)
            assert may_commit is code or (may_commit is ErrorCode.NONE and code is ErrorCode.REBALANCE_IN_PROGRESS)
            self.heed(client, code)

    @rule(index=CLIENTS, protocols=OFFERS, version=st.sampled_from([3, 5, 8, 9]))
    def join_with_another_offer(self, index: int, protocols: dict[str, bytes], version: int) -> None:
        client = self.clients[index]
        client.protocols = protocols
        client.version = version if client.instance is None else max(version, 5)
        self.join(client)

    @rule(index=CLIENTS, forgets_one=st.booleans(), joins=st.booleans())
    def repeat_a_request(self, index: int, forgets_one: bool, joins: bool) -> None:
        client = self.clients[index]
        if joins:
            self.join(client)
        else:
            self.sync(client, forgets_one=forgets_one)

    @rule(index=CLIENTS, generation=st.integers(-1, 5))
    def speak_of_another_generation(self, index: int, generation: int) -> None:
        client = self.clients[index]
        if generation == self.scene.group.generation:
            return
        call = self.scene.sync(client.member_id, generation, {client.member_id: b"stolen"}, instance=client.instance)
        assert call.code is not ErrorCode.NONE
        assert self.scene.beat(client.member_id, generation, instance=client.instance) is not ErrorCode.NONE
        assert self.commit_code(client, generation) is not ErrorCode.NONE or generation == -1
        self.listen()

    @rule(index=CLIENTS, leaves=st.sampled_from(["by id", "by instance", "without a word"]))
    def restart(self, index: int, leaves: str) -> None:
        client = self.clients[index]
        if leaves != "without a word":
            member_id = "" if leaves == "by instance" and client.instance is not None else client.member_id
            self.scene.leave((member_id, client.instance))
        self.listen()
        self.clients[index] = Client(client.instance, client.protocols, client.version)

    def join(self, client: Client) -> None:
        call = self.scene.join(
            client.member_id, instance=client.instance, version=client.version, protocols=client.protocols
        )
        self.listen()  # to the answer of an earlier join, that this one has overtaken
        client.joining = call
        self.listen()

    def sync(self, client: Client, *, forgets_one: bool = False) -> None:
        self.decisions += 1
        shares = {member: b"%d for %s" % (self.decisions, member.encode()) for member in client.heard_of}
        if forgets_one and shares:
            shares.popitem()
        written_before = len(self.scene.log)
        call = self.scene.sync(
            client.member_id, client.generation, shares, instance=client.instance, protocol=client.protocol
        )
        if len(self.scene.log) > written_before:
            for member in client.heard_of:
                self.decided[client.generation, self.person(member)] = shares.get(member, b"")
        self.syncs.append((call, client.generation, self.person(client.member_id)))
        self.listen()
        client.syncing = call
        self.listen()

    def commit_code(self, client: Client, generation: int) -> ErrorCode:
        try:
            self.scene.group.check_commit(
                client.member_id, client.instance, generation, 9, is_transactional=False, now=self.scene.now
            )
        except Refusal as refusal:
            return refusal.code
        return ErrorCode.NONE

    # What happens to the coordinator

    @rule(duration_ms=MOMENTS_MS | STEPS_MS, sleeps=st.booleans())
    def time_passes(self, duration_ms: int, sleeps: bool) -> None:
        if sleeps:
            self.scene.steady_ms += duration_ms
            self.scene.settle()
        else:
            self.scene.pass_time(duration_ms)
        self.listen()

    @rule()
    def another_takes_over(self) -> None:
        for client in self.clients:
            client.joining = client.syncing = None  # the shell sends everybody who waits to the new one
        self.scene.calls.clear()
        self.syncs.clear()
        self.scene.group = reloaded(self.scene.log, self.scene.settings)
        self.scene.perform(self.scene.group.loaded(self.scene.now))
        self.newest_generation = self.scene.group.generation
        self.leader_of.clear()
        self.listen()

    # What must hold

    @invariant()
    def the_group_sleeps_until_something_is_due(self) -> None:
        self.scene.settle()
        self.listen()

    @invariant()
    def generations_only_grow(self) -> None:
        assert self.scene.group.generation >= self.newest_generation
        self.newest_generation = self.scene.group.generation
        for before, after in pairwise(self.scene.values):
            assert after.generation >= before.generation
            if after.generation == before.generation:  # a static member came back under another id
                persons = [{self.person(member.member_id) for member in value.members} for value in (before, after)]
                assert persons[0] == persons[1] != set()

    @invariant()
    def the_log_names_one_leader_and_one_share_per_generation(self) -> None:
        leaders: dict[int, str] = {}
        for value in self.scene.values:
            if value.leader is not None:
                person = self.person(value.leader)
                assert leaders.setdefault(value.generation, person) == person
            for member in value.members:
                assert member.assignment == self.decided[value.generation, self.person(member.member_id)]

    @precondition(lambda self: self.scene.log and self.scene.group.state_name in {"Stable", "Empty"})
    @invariant()
    def the_log_alone_gives_the_same_group(self) -> None:
        live, again = self.scene.group, reloaded(self.scene.log, self.scene.settings)
        assert again.describe() == live.describe()
        assert (again.generation, again.protocol_type) == (live.generation, live.protocol_type)
        assert again.empty_since_ms == live.empty_since_ms
        assert again.subscribed_topics() == live.subscribed_topics()

    @invariant()
    def the_group_keeps_its_size(self) -> None:
        assert len(self.scene.group.describe().members) <= self.limits["max_size"] or (
            self.scene.group.state_name == "PreparingRebalance"
        )

    def teardown(self) -> None:
        if not hasattr(self, "scene"):
            return
        self.scene.pass_time(4 * NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.listen()
        assert all(len(call.answers) == 1 for call in self.scene.calls)
        assert self.scene.group.is_empty
        assert self.scene.group.next_deadline_ms() is None

    # The model

    def person(self, member_id: str) -> str:
        return self.person_of.get(member_id, member_id)

    def listen(self) -> None:
        """Clients read what has been answered."""
        for member in self.scene.group.describe().members:
            self.person_of[member.member_id] = member.group_instance_id or member.member_id
        for client in self.clients:
            if client.joining is not None and not client.joining.is_parked:
                self.hear(client, client.joining.answer)
                client.joining = None
            if client.syncing is not None and not client.syncing.is_parked:
                self.heed(client, client.syncing.code)
                client.has_share = client.syncing.code is ErrorCode.NONE and client.generation != -1
                client.syncing = None
        for call, generation, person in self.syncs:
            if not call.is_parked and call.code is ErrorCode.NONE:
                assert call.answer.assignment == self.decided[generation, person]
        self.syncs = [sync for sync in self.syncs if sync[0].is_parked]

    def hear(self, client: Client, answer: Any) -> None:
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
        if code is not ErrorCode.NONE:
            self.heed(client, code)
            return
        client.member_id = answer.member_id
        client.generation = answer.generation_id
        client.protocol = answer.protocol_name
        client.has_share = False
        client.heard_of = tuple(member.member_id for member in answer.members)
        assert not client.heard_of or answer.leader == client.member_id
        leader = self.person(answer.leader)
        assert self.leader_of.setdefault(answer.generation_id, leader) == leader

    def heed(self, client: Client, code: ErrorCode) -> None:
        if code in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED}:
            client.member_id = ""
        if code is not ErrorCode.NONE:
            client.generation, client.heard_of, client.has_share = -1, (), False


TestClassicGroups = ClassicGroups.TestCase
TestClassicGroups.settings = hypothesis_settings(max_examples=100, stateful_step_count=40, deadline=None)
