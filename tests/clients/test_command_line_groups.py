"""Groups, delivery and transactions on the command line, against a live node."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from tests.clients.commands import call, call_here, started
from tests.clients.nodes import PATIENCE_S, NodeProcess, new_name

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    from tests.clients.commands import Ran

    Call = Callable[..., Ran]

pytest_plugins = ["tests.clients.node_fixtures", "tests.clients.command_fixtures"]

COMMITTED = ("--isolation", "read-committed")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """One node for this file. A group's first members need not wait for others."""
    running = NodeProcess(tmp_path_factory.mktemp("node"), {"group.initial.rebalance.delay.ms": "0"}).start()
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def headrace(node: NodeProcess) -> Call:
    """Call a command that must succeed: in this process, which is faster, unless it needs an input."""

    def succeed(*arguments: str, stdin: str = "") -> Ran:
        address = node.bootstrap_servers
        ran = call(address, *arguments, stdin=stdin) if stdin else call_here(address, *arguments)
        assert ran.code == 0, ran.talk
        return ran

    return succeed


@pytest.fixture
def letters(headrace: Call) -> str:
    """A topic with one partition and six messages."""
    name = new_name("letters")
    headrace("topics", "create", "--name", name, "--partitions", "1")
    headrace("produce", "--topic", name, stdin="a\nb\nc\nd\ne\nf\n")
    return name


def positions(headrace: Call, group: str) -> dict[int, tuple[int | None, int | None]]:
    """Partition to position and lag."""
    shown = json.loads(headrace("lag", "--group", group, "--format", "json").out)
    return {part["partition"]: (part["current_offset"], part["lag"]) for part in shown["partitions"]}


def next_line(running: subprocess.Popen[bytes]) -> str:
    assert running.stdout is not None
    return running.stdout.readline().decode().rstrip("\n")


def ended(running: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Exit code and what it said."""
    code = running.wait(PATIENCE_S)
    assert running.stderr is not None
    return code, running.stderr.read().decode()


# Reading in a group.


@pytest.mark.parametrize("delivery", ["at-most-once", "at-least-once"])
def test_a_group_goes_on_where_it_stopped(headrace: Call, letters: str, delivery: str) -> None:
    consume = ("consume", "--topic", letters, "--group", letters, "--delivery", delivery)
    first = headrace(*consume, "--max-messages", "2")
    assert (first.lines, first.talk) == (["a", "b"], "read 2 messages\n")
    assert positions(headrace, letters) == {0: (2, 4)}
    assert headrace(*consume).lines == ["c", "d", "e", "f"]
    assert headrace(*consume).lines == []
    headrace("produce", "--topic", letters, stdin="g\n")
    assert headrace(*consume, "--from", "latest").lines == ["g"]


def test_where_a_group_has_no_position_it_starts_where_it_is_told(headrace: Call, letters: str) -> None:
    assert headrace("consume", "--topic", letters, "--group", new_name(), "--from", "latest").lines == []
    assert headrace("consume", "--topic", letters, "--group", new_name(), "--from", "earliest").lines == list("abcdef")


@pytest.mark.parametrize(("stop", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_whoever_is_stopped_stores_what_was_printed_and_leaves(
    node: NodeProcess, headrace: Call, letters: str, stop: signal.Signals, exit_code: int
) -> None:
    for delivery in ("at-most-once", "at-least-once"):
        group = new_name(delivery)
        consume = ("consume", "--topic", letters, "--group", group, "--delivery", delivery)
        with started(node, *consume, "--follow") as following:
            assert [next_line(following) for _ in range(6)] == list("abcdef")
            following.send_signal(stop)
            assert ended(following) == (exit_code, "read 6 messages\n")
        described = headrace("groups", "describe", "--group", group)
        assert described.lines == ["Nobody: Partitions [0], Lag: 0"]
        assert described.talk == f"group {group} has no members\n"


def test_members_share_the_partitions(node: NodeProcess, headrace: Call) -> None:
    name = new_name("shared")
    headrace("topics", "create", "--name", name, "--partitions", "4")
    consume = ("consume", "--topic", name, "--group", name, "--follow", "--instance-id")
    with started(node, *consume, "one") as one, started(node, *consume, "two") as two:
        lines: list[str] = []
        while len(lines) != 2 or any("[]" in line for line in lines):
            found = call_here(node.bootstrap_servers, "groups", "describe", "--group", name)
            lines = found.lines if found.code == 0 else []
        assert [line.partition(":")[0] for line in lines] == ["one", "two"]
        owned = [line.partition("[")[2].partition("]")[0].split(", ") for line in lines]
        assert sorted(owned[0] + owned[1]) == ["0", "1", "2", "3"]
        assert len(owned[0]) == 2
        for running in (one, two):
            running.send_signal(signal.SIGINT)
        assert {ended(running)[0] for running in (one, two)} == {130}


def test_an_unknown_topic_makes_no_group(headrace: Call, refused: Call) -> None:
    group = new_name()
    missing = refused("consume", "--topic", "nowhere", "--group", group)
    assert missing.code == 3
    assert "there is no topic 'nowhere'" in missing.talk
    assert refused("groups", "describe", "--group", group).code == 3


# Looking at groups.


def test_a_group_is_listed_and_described(node: NodeProcess, headrace: Call, letters: str) -> None:
    group = new_name("my-group")
    with started(node, "consume", "--topic", letters, "--group", group, "--follow") as following:
        next_line(following)
        listed = [line.split() for line in headrace("groups", "list").lines if line.startswith(group)]
        assert listed == [[group, "Stable", "classic", "consumer"]]
        assert group not in headrace("groups", "list", "--state", "empty").out
        assert group in headrace("groups", "list", "--state", "stable", "--type", "classic", "--format", "json").out
        while positions(headrace, group) != {0: (6, 0)}:
            pass
        described = headrace("groups", "describe", "--group", group)
        assert (described.lines, described.talk) == (["headrace-cli: Partitions [0], Lag: 0"], "")
        columns, row = headrace("groups", "describe", "--group", group, "--format", "table").lines
        assert columns.split("  ")[0] == "TOPIC"
        assert row.split()[:5] == [letters, "0", "6", "6", "0"]
        assert row.split()[-3:] == ["headrace-cli", "/127.0.0.1", "headrace-cli"]
        facts = json.loads(headrace("groups", "describe", "--group", group, "--format", "json").out)
        assert (facts["state"], len(facts["members"])) == ("Stable", 1)
        following.send_signal(signal.SIGINT)
        ended(following)


def test_lag_in_messages_and_in_time(headrace: Call, node: NodeProcess) -> None:
    name = new_name("behind")
    headrace("topics", "create", "--name", name, "--partitions", "1")
    old = '{"value": "old", "timestamp": "2001-01-01T00:00:00"}\n'
    headrace("produce", "--topic", name, "--json", stdin='{"value": "a"}\n' + old)
    headrace("consume", "--topic", name, "--group", name, "--max-messages", "1")
    shown = headrace("lag", "--group", name)
    cells = shown.lines[1].split()
    assert cells[:5] == [name, "0", "1", "2", "1"]
    assert cells[-1] == "days"
    assert int(cells[-2]) > 9000
    assert shown.talk.startswith(f"lag of {name}: 1, the oldest unread message is ")
    with started(node, "lag", "--group", name, "--watch", "--interval-s", "0.1", "--format", "json") as watching:
        assert [json.loads(next_line(watching))["partitions"][0]["lag"] for _ in range(2)] == [1, 1]
        watching.send_signal(signal.SIGINT)
        assert ended(watching) == (130, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["groups", "describe", "--group", "nobody"],
        ["groups", "delete", "--group", "nobody"],
        ["groups", "delete-offsets", "--group", "nobody", "--topic", "t"],
        ["lag", "--group", "nobody"],
    ],
)
def test_an_unknown_group_is_exit_code_three(refused: Call, arguments: list[str]) -> None:
    ran = refused(*arguments)
    assert (ran.code, ran.out) == (3, "")
    assert "'nobody'" in ran.talk
    assert "hint: `headrace groups list`" in ran.talk


# Moving and deleting groups.


def moves(ran: Ran) -> list[list[str]]:
    return [line.split(maxsplit=4)[1:] for line in ran.lines[1:]]


def test_a_group_is_moved(headrace: Call, letters: str) -> None:
    group = new_name("mover")
    consume = ("consume", "--topic", letters, "--group", group)
    reset = ("groups", "reset-offsets", "--group", group, "--topic", letters)
    assert headrace(*consume).lines == list("abcdef")

    dry = headrace(*reset, "--to-earliest", "--dry-run")
    assert moves(dry) == [["0", "6", "0"]]
    assert dry.talk == "1 position would change; nothing was done\n"
    assert headrace(*consume).lines == []

    moved = headrace(*reset, "--to-earliest")
    assert (moves(moved), moved.talk) == ([["0", "6", "0"]], f"changed 1 position of {group}\n")
    assert headrace(*consume).lines == list("abcdef")

    assert moves(headrace(*reset, "--shift-by", "-2")) == [["0", "6", "4"]]
    assert headrace(*consume).lines == ["e", "f"]
    assert moves(headrace(*reset, "--to-offset", "3")) == [["0", "6", "3"]]
    assert moves(headrace(*reset, "--shift-by", "99")) == [["0", "3", "6", "102 lies past the log: its end"]]
    assert moves(headrace(*reset, "--to-datetime", "2001-01-01")) == [["0", "6", "0"]]
    late = headrace(*reset, "--to-datetime", "2999-01-01T00:00:00Z")
    assert moves(late) == [["0", "0", "6", "no message is that late: the end"]]
    again = headrace("groups", "reset-offsets", "--group", group, "--all-topics", "--to-latest", "--format", "json")
    assert json.loads(again.out)[0].items() >= {"old_offset": 6, "new_offset": 6}.items()
    assert again.talk == f"changed 0 positions of {group}\n"


def test_only_chosen_partitions_are_moved(headrace: Call, refused: Call) -> None:
    name = new_name("many")
    headrace("topics", "create", "--name", name, "--partitions", "3")
    for partition in "012":
        headrace("produce", "--topic", name, "--partition", partition, stdin="x\n")
    reset = ("groups", "reset-offsets", "--group", name)
    preset = headrace(*reset, "--topic", f"{name}:0,2", "--to-latest")
    assert moves(preset) == [["0", "-", "1"], ["2", "-", "1"]]
    assert preset.talk == f"group {name} does not exist yet\nchanged 2 positions of {name}\n"
    assert positions(headrace, name) == {0: (1, 0), 2: (1, 0)}
    shifted = headrace(*reset, "--topic", name, "--shift-by", "-1")
    assert moves(shifted) == [["0", "1", "0"], ["1", "-", "-", "no position to shift"], ["2", "1", "0"]]
    missing = refused(*reset, "--topic", f"{name}:3", "--to-latest")
    assert (missing.code, "has no partition 3; it has 0 to 2" in missing.talk) == (3, True)
    assert refused(*reset, "--topic", "nowhere", "--to-latest").code == 3


def test_an_active_group_is_left_alone(node: NodeProcess, headrace: Call, refused: Call, letters: str) -> None:
    group = new_name("active")
    with started(node, "consume", "--topic", letters, "--group", group, "--follow") as following:
        next_line(following)
        for arguments in (
            ["reset-offsets", "--topic", letters, "--to-earliest"],
            ["reset-offsets", "--topic", letters, "--to-earliest", "--dry-run"],
            ["delete"],
        ):
            ran = refused("groups", *arguments, "--group", group)
            assert (ran.code, ran.out) == (1, "")
            assert "hint: stop its consumers first" in ran.talk
        subscribed = refused("groups", "delete-offsets", "--group", group, "--topic", letters)
        assert "hint: a member still reads this topic" in subscribed.talk
        following.send_signal(signal.SIGINT)
        ended(following)
    assert headrace("groups", "delete-offsets", "--group", group, "--topic", letters).talk == (
        f"forgot 1 position of {group}\n"
    )


def test_a_group_is_deleted(headrace: Call, refused: Call, letters: str) -> None:
    group = new_name("gone")
    consume = ("consume", "--topic", letters, "--group", group)
    assert len(headrace(*consume).lines) == 6
    assert headrace("groups", "delete", "--group", group).talk == f"deleted group {group}\n"
    assert refused("groups", "describe", "--group", group).code == 3
    assert len(headrace(*consume).lines) == 6


# Delivery.


def test_at_most_once_is_sent(headrace: Call) -> None:
    name = new_name()
    headrace("topics", "create", "--name", name, "--partitions", "1")
    headrace("produce", "--topic", name, "--delivery", "at-most-once", stdin="a\nb\n")
    while (seen := headrace("consume", "--topic", name).lines) != ["a", "b"]:  # nobody waited for it
        assert seen in ([], ["a"])


def test_an_input_is_committed_as_a_whole(node: NodeProcess, headrace: Call) -> None:
    name = new_name()
    headrace("topics", "create", "--name", name, "--partitions", "2")
    with started(node, "produce", "--topic", name, "--delivery", "exactly-once", "--linger-ms", "0") as producing:
        assert producing.stdin is not None
        producing.stdin.write(b"a\nb\n")
        producing.stdin.flush()
        while sorted(headrace("consume", "--topic", name).lines) != ["a", "b"]:
            pass
        assert headrace("consume", "--topic", name, *COMMITTED).lines == []
        producing.stdin.write(b"c\n")
        producing.stdin.close()
        code, said = ended(producing)
        assert (code, said.startswith("sent 3 messages")) == (0, True)
    assert sorted(headrace("consume", "--topic", name, *COMMITTED).lines) == ["a", "b", "c"]


def test_a_bad_line_aborts_the_whole_input(headrace: Call, refused: Call) -> None:
    name = new_name()
    headrace("topics", "create", "--name", name, "--partitions", "1")
    produce = ("produce", "--topic", name, "--json", "--delivery", "exactly-once", "--transactional-id", name)
    bad = refused(*produce, stdin='{"value": "a"}\nnonsense\n')
    assert bad.code == 1
    assert "aborted: readers of committed messages will see none of the input" in bad.talk
    assert "hint: nothing of the input is committed" in bad.talk
    assert headrace("consume", "--topic", name, *COMMITTED).lines == []
    headrace(*produce, stdin='{"value": "a"}\n{"value": "b"}\n')
    assert headrace("consume", "--topic", name, *COMMITTED).lines == ["a", "b"]


def test_ctrl_c_aborts_the_whole_input(node: NodeProcess, headrace: Call) -> None:
    name = new_name()
    headrace("topics", "create", "--name", name, "--partitions", "1")
    with started(node, "produce", "--topic", name, "--delivery", "exactly-once") as producing:
        assert producing.stdin is not None
        producing.stdin.write(b"a\n")
        producing.stdin.flush()
        while headrace("consume", "--topic", name).lines != ["a"]:
            pass
        producing.send_signal(signal.SIGINT)
        code, said = ended(producing)
        assert (code, said.startswith("aborted: ")) == (130, True)
    assert headrace("consume", "--topic", name, *COMMITTED).lines == []


def test_a_topic_is_not_copied_into_itself(refused: Call) -> None:
    ran = refused("consume", "--topic", "same", "--group", "g", "--to-topic", "same")
    assert "the copies would be copied" in ran.talk


def test_messages_are_copied_exactly_once_with_all_that_belongs_to_them(headrace: Call) -> None:
    source, target = new_name("source"), new_name("target")
    for name in (source, target):
        headrace("topics", "create", "--name", name, "--partitions", "1")
    lines = [{"key": f"k{n}", "value": f"v{n}", "headers": {"n": str(n)}, "timestamp": 1000 + n} for n in range(20)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    headrace("produce", "--topic", source, "--json", "--delivery", "exactly-once", stdin=text)
    copy = ("consume", "--topic", source, "--group", source, "--delivery", "exactly-once", "--to-topic", target)
    copied = headrace(*copy, "--max-poll-records", "7", "--max-messages", "15")
    assert (copied.out, copied.talk) == ("", "copied 15 messages\n")
    assert headrace(*copy).talk == "copied 5 messages\n"
    assert headrace(*copy).talk == "copied 0 messages\n"
    seen = [json.loads(line) for line in headrace("consume", "--topic", target, *COMMITTED, "--format", "json").lines]
    assert [(line["key"], line["value"], line["timestamp"]) for line in seen] == [
        (line["key"], line["value"], line["timestamp"]) for line in lines
    ]
    assert seen[7]["headers"] == [{"key": "n", "value": "7"}]
    assert positions(headrace, source)[0][1] == 0  # also past the mark that the input's transaction left


def test_repeats_are_dropped_by_their_id_across_partitions(headrace: Call) -> None:
    name = new_name()
    headrace("topics", "create", "--name", name, "--partitions", "3")
    lines = [{"value": f"{n}", "headers": {"id": f"order-{n % 4}"}, "partition": n % 3} for n in range(12)]
    lines.append({"value": "no id", "partition": 0})
    headrace("produce", "--topic", name, "--json", stdin="".join(json.dumps(line) + "\n" for line in lines))
    dedupe = ("--dedupe-header", "id")
    alone = headrace("consume", "--topic", name, *dedupe)
    assert (len(alone.lines), alone.talk) == (5, "read 5 messages, dropped 8 repeats\n")
    assert len({int(value) % 4 for value in alone.lines if value != "no id"}) == 4
    grouped = headrace("consume", "--topic", name, "--group", name, *dedupe)
    assert (len(grouped.lines), grouped.talk) == (5, "read 5 messages, dropped 8 repeats\n")
    assert headrace("consume", "--topic", name, "--group", name, *dedupe).lines == []


# Transactions.


def test_an_open_transaction_is_seen_and_aborted(node: NodeProcess, headrace: Call, refused: Call) -> None:
    name = new_name("ledger")
    headrace("topics", "create", "--name", name, "--partitions", "1")
    produce = ("produce", "--topic", name, "--delivery", "exactly-once", "--transactional-id", name)
    with started(node, *produce) as producing:
        assert producing.stdin is not None
        producing.stdin.write(b"a\n")
        producing.stdin.flush()
        while headrace("consume", "--topic", name).lines != ["a"]:
            pass
        (row,) = (line.split() for line in headrace("transactions", "list").lines if line.startswith(name))
        assert row[1] == "Ongoing"
        assert name not in headrace("transactions", "list", "--state", "CompleteCommit").out
        described = headrace("transactions", "describe", "--transactional-id", name, "--format", "json")
        facts = json.loads(described.out)
        assert (facts["state"], facts["partitions"]) == ("Ongoing", [{"topic": name, "partition": 0}])
        text = headrace("transactions", "describe", "--transactional-id", name).lines
        assert f"Partitions:       {name}-0" in text
        columns, writer = headrace("transactions", "describe", "--topic", name, "--partition", "0").lines
        assert columns.endswith("OPEN SINCE OFFSET")
        assert writer.split()[-1] == "0"

        aborted = headrace("transactions", "abort", "--transactional-id", name)
        assert aborted.talk == f"aborted the transaction of {name}\n"
        producing.stdin.close()
        code, said = ended(producing)
        assert code == 1
        assert "aborted: readers of committed messages" in said
    assert headrace("consume", "--topic", name, *COMMITTED).lines == []
    closed = refused("transactions", "abort", "--transactional-id", name)
    assert (closed.code, "has no open transaction" in closed.talk) == (1, True)


def test_unknown_transactions(refused: Call, letters: str) -> None:
    for verb in ("describe", "abort"):
        ran = refused("transactions", verb, "--transactional-id", "nobody")
        assert (ran.code, ran.out) == (3, "")
        assert "hint: `headrace transactions list`" in ran.talk
    place = ("--topic", letters, "--partition", "0")
    hanging = refused("transactions", "abort", *place, "--producer-id", "12345")
    assert (hanging.code, "producer 12345 has no open transaction" in hanging.talk) == (3, True)
