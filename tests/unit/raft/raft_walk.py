"""A walk through a bad day: faults and requests in an order that a seed decides."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from headrace.raft import leader_state
from headrace.raft.membership import Membership, ReplicaKey
from tests.unit.raft.raft_world import Host, Weather, World

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.model.names import NodeId
    from headrace.raft.progress import FollowerStatus

SIZES = [1, 2, 3, 3, 3, 4, 5]


class Walk:
    def __init__(self, seed: int, *, dice: Random | None = None) -> None:
        self._dice = dice or Random(f"walk {seed}")
        is_changing = self._dice.random() < 0.6
        size = self._dice.choice(SIZES)
        weather = Weather(
            delay_ms=(1, self._dice.choice([2, 20, 150])),
            flush_ms=(1, self._dice.choice([2, 20, 300])),
            loss=self._dice.choice([0, 0, 0.05, 0.2]),
            doubles=self._dice.choice([0, 0.1]),
            stragglers=self._dice.choice([0, 0.02]),
        )
        others = (size + 1, size + 2) if is_changing else ()
        self.world = World(seed, voters=range(1, size + 1), others=others, weather=weather)
        self._message_bytes = self._dice.choice([1, 4, leader_state.MESSAGE_BYTES])
        self._payload_number = 0
        self._acts = self._weighted(is_changing)

    def _weighted(self, is_changing: bool) -> list[Callable[[], None]]:
        """Each day has its own mood: what happens often in one does not happen at all in another."""
        acts = [self._read, self._crash, self._cut, self._pause, self._sum_up, self._hand_over, self._suspect]
        if is_changing:
            acts += [self._change_membership, self._change_membership, self._tend_disks, self._replace_disk]
        moody = [act for act in acts for _ in range(self._dice.choice([0, 1, 4]))]
        return [*moody, *[self._propose] * 3, *[self._restart] * 2, *[self._mend] * 2]

    def go(self, steps: int) -> World:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(leader_state, "MESSAGE_BYTES", self._message_bytes)
            self._go(steps)
        return self.world

    def _go(self, steps: int) -> None:
        self.world.start()
        self.world.run(self._dice.randint(0, 3000))
        for _ in range(steps):
            self._dice.choice(self._acts)()
            self.world.run(self._dice.choice([0, 5, 50, 300, 1500]))
        self.world.heal()
        self._tend_until_whole()
        self.world.expect_progress()

    # ---- requests

    def _any(self) -> Host:
        return self._dice.choice(list(self.world.hosts.values()))

    def _likely_leader(self) -> Host:
        leaders = [host for host in self.world.up() if host.is_leader]
        return self._dice.choice(leaders) if leaders else self._any()

    def _propose(self) -> None:
        host = self._likely_leader()
        for _ in range(self._dice.choice([1, 1, 3, 12])):
            self._payload_number += 1
            if self.world.propose(host, b"%d" % self._payload_number):
                self.world.figures["proposals"] += 1

    def _read(self) -> None:
        self.world.read(self._likely_leader())

    def _hand_over(self) -> None:
        heir = self._any().node_id
        is_willing = self.world.ask(
            self._likely_leader(), lambda node: node.transfer_leadership(heir, self.world.now_ms)
        )
        self.world.figures["hand-overs"] += is_willing

    def _sum_up(self) -> None:
        host = self._likely_leader()
        if host.is_up:
            self.world.snapshot(host, keep=self._dice.choice([0, 0, 5]))

    # ---- faults

    def _crash(self) -> None:
        host = self._any()
        if host.is_up:
            self.world.figures["crashes"] += 1
            host.crash()

    def _suspect(self) -> None:
        """Rightly or not."""
        host, suspect = self._any(), self._any().node_id
        if host.is_up:
            self.world.figures["suspicions"] += 1
            host.node.suspect(suspect, self.world.now_ms)
            self.world.pump(host)

    def _restart(self) -> None:
        down = [host for host in self.world.hosts.values() if not host.is_up]
        if down:
            self._dice.choice(down).start()

    def _cut(self) -> None:
        self.world.figures["cuts"] += 1
        everybody = list(self.world.hosts)
        leader = self.world.leader
        if leader is not None and self._dice.random() < 0.3:
            self.world.cut([leader.node_id], [node_id for node_id in everybody if node_id != leader.node_id])
            return
        if self._dice.random() < 0.4:
            pairs = [(a, b) for a in everybody for b in everybody if a != b]
            self.world.cuts |= set(self._dice.sample(pairs, min(len(pairs), 2)))
            return
        self._dice.shuffle(everybody)
        middle = self._dice.randint(1, len(everybody))
        self.world.cut(everybody[:middle], everybody[middle:])

    def _mend(self) -> None:
        self.world.cuts = set()

    def _pause(self) -> None:
        self._any().paused_until_ms = self.world.now_ms + self._dice.choice([100, 1500, 4000])

    # ---- membership

    def _change_membership(self) -> None:
        host = self._likely_leader()
        if not host.is_leader or not self._is_whole(host.node.membership):
            return
        change = self._pick_change(host.node.membership, host.node.followers())
        is_willing = self.world.ask(host, lambda node: node.change_membership(change, self.world.now_ms))
        self.world.figures["changes"] += is_willing

    def _pick_change(self, membership: Membership, followers: Mapping[NodeId, FollowerStatus]) -> Membership:
        node_id = self._any().node_id
        if node_id in membership.learners:
            follower = followers.get(node_id)
            if follower is None or self._dice.random() < 0.2:
                return membership.without(node_id)
            return membership.with_voter(ReplicaKey(node_id, follower.directory))
        if node_id not in membership.everybody:
            return membership.with_learner(node_id)
        return membership.demoting(node_id) if self._dice.random() < 0.5 else membership.without(node_id)

    def _replace_disk(self) -> None:
        """One at a time, and only when everybody knows whose disk was which: more than that nobody can survive."""
        leader = self.world.leader
        if leader is None:
            return
        voters = leader.node.membership.voters
        is_known = all(self.world.hosts[voter.node_id].disk.log().membership.voters == voters for voter in voters)
        if is_known and self._is_whole(leader.node.membership) and len(voters) >= 3:
            self.world.figures["disks"] += 1
            self.world.replace_disk(self._dice.choice(voters).node_id)

    def _is_whole(self, membership: Membership) -> bool:
        """Whether every voter has the disk that it is known by."""
        return all(self.world.hosts[node_id].disk.directory == directory for node_id, directory in membership.voters)

    def _tend_disks(self) -> None:
        """As an operator would: who came back with another disk is made a learner, and a voter once it caught up."""
        leader = self.world.leader
        if leader is None:
            return
        membership = leader.node.membership
        for node_id, follower in leader.node.followers().items():
            change = membership
            if node_id in membership.learners:
                change = membership.with_voter(ReplicaKey(node_id, follower.directory))
            elif not membership.is_voter(ReplicaKey(node_id, follower.directory)):
                change = membership.demoting(node_id)
            if change != membership:
                self._ask_for(change, leader)

    def _ask_for(self, membership: Membership, leader: Host) -> None:
        self.world.ask(leader, lambda node: node.change_membership(membership, self.world.now_ms))

    def _tend_until_whole(self) -> None:
        for _ in range(40):
            self.world.run(500)
            self._tend_disks()
            leader = self.world.leader
            if leader is not None and self._is_whole(leader.node.membership):
                return
