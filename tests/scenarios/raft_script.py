"""Plays a scenario of Raft: one command per line goes in, what the nodes then do comes out, one line each.

voters 1 2 3 [others 4]       found a cluster; node n waits 900 + n * 100 ms for a leader
cluster 1 2 3 [others 4]      the same, and 500 ms after node 1 was elected
one entry per message
patience 2 1000               node 2 waits so long instead
run 500                       let so many milliseconds pass
propose 1 x y                 ask node 1 to write entries
read 1                        ask node 1 for permission to answer a read
learner 4 | promote 4 | demote 4 | remove 4     ask the leader to change the membership
hand over 2                   ask the leader to let node 2 lead
snapshot 1                    node 1 sums up what is decided, and drops those entries
crash 1 | start 1 | replace disk 1 | copy disk 1
put back disk 1               its latest copy, in place of what it holds
suspect 1 at 2 3              tell nodes 2 and 3 that the process of node 1 has ended
disk 1 takes 50               how long node 1 takes to flush
cut 1 2 / 3                   the parts no longer hear each other
cut 1 > 2                     2 no longer hears 1
mend                          all hear each other
messages                      from now on show them too, but for heartbeats that find nothing
show                          where everybody is
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from headrace.model.errors import Refusal
from headrace.model.names import NodeId
from headrace.raft import leader_state
from headrace.raft.membership import Membership, ReplicaKey
from headrace.raft.messages import (
    AppendAnswer,
    AppendEntries,
    InstallSnapshot,
    Message,
    OutboundMessage,
    RequestVote,
    TakeOver,
    VoteAnswer,
)
from headrace.raft.ready import Ready, Role
from tests.unit.raft.raft_world import Host, World

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from headrace.raft.log import Entry
    from headrace.raft.node import RaftNode
    from tests.unit.raft.raft_disk import RaftDisk


class Stage:
    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self._lines: list[str] = []
        self._standing: dict[NodeId, tuple[object, ...]] = {}
        self._copies: dict[NodeId, RaftDisk] = {}
        self._shows_messages = False
        self.world = World()
        self._began_ms = self.world.now_ms

    def play(self, commands: str) -> str:
        """What happened."""
        self._lines = []
        for command in commands.splitlines():
            self._obey(command.split())
        return "".join(f"{line}\n" for line in self._lines) or "nothing\n"

    def _obey(self, words: list[str]) -> None:
        match words:
            case ["voters", *ids]:
                self._found(ids)
            case ["cluster", *ids]:
                self._found(ids)
                self.world.run(1500)
                self._lines.clear()
            case ["one", "entry", "per", "message"]:
                self._patch.setattr(leader_state, "MESSAGE_BYTES", 1)
            case ["patience", node_id, wait_ms]:
                self._be_patient(self._host(node_id), int(wait_ms))
            case ["run", duration_ms]:
                self.world.run(int(duration_ms))
            case ["propose", node_id, *payloads]:
                for payload in payloads:
                    self._propose(self._host(node_id), payload)
            case ["read", node_id]:
                self._read(self._host(node_id))
            case [("learner" | "promote" | "demote" | "remove") as change, node_id]:
                self._change(change, NodeId(int(node_id)))
            case ["hand", "over", heir]:
                self._ask(self._leader(), lambda node: node.transfer_leadership(NodeId(int(heir)), self.world.now_ms))
            case ["snapshot", node_id]:
                self.world.snapshot(self._host(node_id))
            case ["messages"]:
                self._shows_messages = True
            case ["show"]:
                self._lines += [_described(host) for host in self.world.hosts.values()]
            case _:
                self._trouble(words)

    def _trouble(self, words: list[str]) -> None:
        match words:
            case ["crash", node_id]:
                self._host(node_id).crash()
            case ["suspect", suspect, "at", *ids]:
                for node_id in ids:
                    host = self._host(node_id)
                    host.node.suspect(NodeId(int(suspect)), self.world.now_ms)
                    self.world.pump(host)
            case ["start", node_id]:
                self._standing.pop(NodeId(int(node_id)), None)
                self._host(node_id).start()
            case ["replace", "disk", node_id]:
                self.world.replace_disk(NodeId(int(node_id)))
            case ["copy", "disk", node_id]:
                self._copies[NodeId(int(node_id))] = deepcopy(self._host(node_id).disk)
            case ["put", "back", "disk", node_id]:
                self._host(node_id).disk = deepcopy(self._copies[NodeId(int(node_id))])
            case ["disk", node_id, "takes", flush_ms]:
                self._host(node_id).flush_ms = int(flush_ms)
            case ["cut", source, ">", target]:
                self.world.cuts.add((NodeId(int(source)), NodeId(int(target))))
            case ["cut", *rest]:
                self.world.cut(*(map(int, part.split()) for part in " ".join(rest).split("/")))
            case ["mend"]:
                self.world.cuts = set()
            case _:
                raise AssertionError(f"{' '.join(words)!r} is no command; see the top of {__file__}")

    def _found(self, ids: list[str]) -> None:
        middle = ids.index("others") if "others" in ids else len(ids)
        self.world = World(voters=map(int, ids[:middle]), others=map(int, ids[middle + 1 :]))
        self._began_ms = self.world.now_ms
        self.world.watchers.append(self._watch)
        for host in self.world.hosts.values():
            self._be_patient(host, 900 + host.node_id * 100)
        self.world.start()

    def _host(self, node_id: str) -> Host:
        return self.world.hosts[NodeId(int(node_id))]

    def _leader(self) -> Host:
        leader = self.world.leader
        assert leader is not None, "nobody leads"
        return leader

    @staticmethod
    def _be_patient(host: Host, wait_ms: int) -> None:
        host.chance = lambda: (wait_ms - 1000) / 1000
        if host.is_up:
            host.node._chance = host.chance
            host.node._wait_for_leader(host.world.now_ms)
            host.world.pump(host)

    def _ask(self, host: Host, act: Callable[[RaftNode], object]) -> None:
        try:
            act(host.node)
        except Refusal as refusal:
            self._say(f"{host.node_id} refuses: {refusal.message}")
        self.world.pump(host)

    def _propose(self, host: Host, payload: str) -> None:
        self._ask(host, lambda node: node.propose(payload.encode()))

    def _read(self, host: Host) -> None:
        token = object()
        self.world.judge.asked_read(token)
        self._ask(host, lambda node: node.read(token, self.world.now_ms))

    def _change(self, change: str, node_id: NodeId) -> None:
        leader = self._leader()
        membership = leader.node.membership
        match change:
            case "learner":
                wanted = membership.with_learner(node_id)
            case "promote":
                wanted = membership.with_voter(ReplicaKey(node_id, self.world.hosts[node_id].disk.directory))
            case "demote":
                wanted = membership.demoting(node_id)
            case _:
                wanted = membership.without(node_id)
        self._ask(leader, lambda node: node.change_membership(wanted, self.world.now_ms))

    # ---- what is seen

    def _say(self, line: str) -> None:
        self._lines.append(f"{self.world.now_ms - self._began_ms:5} {line}")

    def _watch(self, host: Host, ready: Ready) -> None:
        me = host.node_id
        standing = (ready.role, ready.term, ready.leader)
        if self._standing.get(me, (Role.FOLLOWER, 0, None)) != standing:
            self._say(f"{me} {_standing(ready)}")
            self._standing[me] = standing
        if ready.installed is not None:
            self._say(f"{me} installs a snapshot of everything before {ready.installed.end}")
        if ready.saving.truncate_to is not None:
            self._say(f"{me} cuts its log at {ready.saving.truncate_to}")
        if ready.committed:
            self._say(f"{me} applies {', '.join(map(_content, ready.committed))}")
        for read_state in ready.read_states:
            self._say(f"{me} may answer the read from what is before {read_state.end}")
        for _ in ready.lost_reads:
            self._say(f"{me} cannot answer the read")
        for other in ready.regressed:
            self._say(f"{me} finds that {other} lacks what it had confirmed")
        if self._shows_messages:
            for outbound in ready.messages:
                self._show_message(me, outbound)

    def _show_message(self, source: NodeId, outbound: OutboundMessage) -> None:
        match outbound.message:
            case AppendEntries(entries=()) | AppendAnswer(is_accepted=True):
                return
        is_cut = (source, outbound.target) in self.world.cuts or not self.world.hosts[outbound.target].is_up
        self._say(f"{source} > {outbound.target}: {_said(outbound.message)}{' (lost)' if is_cut else ''}")


def _standing(ready: Ready) -> str:
    match ready.role:
        case Role.LEADER:
            return f"leads in term {ready.term}"
        case Role.CANDIDATE:
            return f"stands, in term {ready.term}"
        case Role.FOLLOWER:
            return f"follows {ready.leader or 'nobody'} in term {ready.term}"


def _described(host: Host) -> str:
    if not host.is_up:
        return f"{host.node_id}: down"
    node = host.node
    role = {Role.LEADER: "leader", Role.CANDIDATE: "candidate", Role.FOLLOWER: f"follower of {node.get_leader()}"}
    entries = " ".join(f"{_content(entry)}@{entry.term}" for entry in node.log.entries_from(node.log.start, 1 << 30))
    return f"{host.node_id}: {role[node.role]}, term {node.term}, committed {node.log.commit_end}, log {entries or '-'}"


def _content(entry: Entry) -> str:
    if isinstance(entry.payload, Membership):
        voters = " ".join(f"{voter.node_id}{'' if voter.directory else '?'}" for voter in entry.payload.voters)
        learners = " ".join(map(str, entry.payload.learners))
        return f"[{voters}{' +' if learners else ''}{learners}]"
    return entry.payload.decode() or "-"


def _said(message: Message) -> str:
    match message:
        case RequestVote():
            what = "would you vote for me" if message.is_pre_vote else "vote for me"
            return f"{what} in term {message.term}; my log is {message.end}@{message.last_term}"
        case VoteAnswer():
            return f"{'yes' if message.is_granted else 'no'}, term {message.term}"
        case AppendEntries():
            contents = " ".join(map(_content, message.entries))
            return f"after {message.previous_end}@{message.previous_term} comes {contents}"
        case AppendAnswer():
            return f"no {message.asked_end} here, but {message.end}@{message.hint_term}; term {message.term}"
        case InstallSnapshot():
            return f"here is everything before {message.snapshot.end}"
        case TakeOver():
            return "take over"
