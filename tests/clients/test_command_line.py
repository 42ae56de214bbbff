"""The `headrace` command as a user calls it, against a live node: output, exit codes, errors, signals."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import random
import signal
import struct
import subprocess
import termios
import time
from typing import IO, TYPE_CHECKING

import pytest

from headrace.wire.batches.header import Codec
from headrace.wire.partitioning import partition_for_key
from tests.clients.clusters import wait_until
from tests.clients.commands import COMMAND, NOBODY, call, call_here, environment, started
from tests.clients.nodes import PATIENCE_S, new_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.clients.commands import Ran
    from tests.clients.nodes import NodeProcess

    Call = Callable[..., Ran]

pytest_plugins = ["tests.clients.node_fixtures", "tests.clients.command_fixtures"]

# Topics, as the design document's chapter on operation has them.


def test_the_life_of_a_topic(headrace: Call, refused: Call) -> None:
    name = new_name("events")
    created = headrace("topics", "create", "--name", name, "--partitions", "3", "--replication-factor", "1")
    assert (created.out, created.talk) == ("", f"created topic {name} with 3 partitions\n")

    described = headrace("topics", "describe", "--name", name)
    assert described.out == "".join(f"Partition {index}: Leader=1, ISR=[1]\n" for index in range(3))
    assert described.talk == ""

    headrace("topics", "alter", "--name", name, "--partitions", "6")
    assert len(headrace("topics", "describe", "--name", name).lines) == 6
    fewer = refused("topics", "alter", "--name", name, "--partitions", "2")
    assert (fewer.code, fewer.out) == (1, "")

    assert [line.split() for line in headrace("topics", "list").lines if line.startswith(name)] == [[name, "6", "1"]]
    assert {"name": name, "partitions": 6, "replication_factor": 1}.items() <= next(
        topic for topic in json.loads(headrace("topics", "list", "--format", "json").out) if topic["name"] == name
    ).items()

    headrace("topics", "delete", "--name", name)
    gone = refused("topics", "describe", "--name", name)
    assert (gone.code, gone.out) == (3, "")
    assert gone.talk.startswith(f"error: there is no topic '{name}'\nhint: ")


def test_a_topic_is_described_in_full(headrace: Call) -> None:
    name = new_name()
    headrace("topics", "create", "--name", name, "--partitions", "2", "--config", "retention.ms=1000000")
    headrace("produce", "--topic", name, "--partition", "1", stdin="a\nb\n")
    facts = json.loads(headrace("topics", "describe", "--name", name, "--format", "json").out)
    assert facts["configs"] == {"retention.ms": "1000000"}
    assert [(part["leader"], part["first_offset"], part["end_offset"]) for part in facts["partitions"]] == [
        (1, 0, 0),
        (1, 0, 2),
    ]
    assert facts["partitions"][0]["bytes"] == 0
    assert facts["partitions"][1]["bytes"] > 61
    verbose = headrace("topics", "describe", "--name", name, "--verbose").lines
    assert verbose[:2] == ["Partition 0: Leader=1, ISR=[1]", "Partition 1: Leader=1, ISR=[1]"]
    assert f"Topic id: {facts['topic_id']}" in verbose
    assert "  retention.ms=1000000" in verbose


def test_a_topic_that_exists(headrace: Call, refused: Call) -> None:
    name = new_name()
    headrace("topics", "create", "--name", name, "--partitions", "2")
    again = refused("topics", "create", "--name", name)
    assert again.code == 1
    assert "--if-not-exists" in again.talk
    kept = headrace("topics", "create", "--name", name, "--partitions", "9", "--if-not-exists")
    assert kept.talk == f"topic {name} is there already\n"
    assert len(headrace("topics", "describe", "--name", name).lines) == 2


def test_deleting_asks_on_a_terminal(node: NodeProcess, headrace: Call) -> None:
    name = new_name()
    headrace("topics", "create", "--name", name)

    assert deleting(node, name, b"n\n")[0] == 1
    headrace("topics", "describe", "--name", name)
    assert deleting(node, name, b"y\n")[0] == 0
    assert name not in headrace("topics", "list").out


def deleting(node: NodeProcess, topic: str, answer: bytes) -> tuple[int, str]:
    """On a terminal. The exit code, and what was said."""
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    running = subprocess.run(
        [*COMMAND, "topics", "delete", "--name", topic],
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(node.bootstrap_servers),
        timeout=PATIENCE_S,
        check=False,
        text=True,
    )
    os.close(ours)
    os.close(theirs)
    return running.returncode, running.stderr


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("__consumer_offsets", "all groups and their positions are lost"),
        ("__transaction_state", "all transactional ids are forgotten"),
    ],
)
def test_deleting_what_the_cluster_keeps_for_itself_says_what_is_lost(
    own_node: NodeProcess, name: str, loss: str
) -> None:
    address = own_node.bootstrap_servers
    assert call(address, "topics", "create", "--name", name).code == 0
    code, said = deleting(own_node, name, b"n\n")
    assert (code, loss in said) == (1, True), said
    deleted = call(address, "topics", "delete", "--name", name, "--yes")
    assert deleted.code == 0
    assert deleted.talk.startswith(f"warning: {name} is deleted, which means: {loss}")


# Settings.


def test_settings_are_changed_and_shown(headrace: Call) -> None:
    name = new_name()
    headrace("topics", "create", "--name", name)

    def changed() -> dict[str, str]:
        shown = json.loads(headrace("configs", "describe", "--topic", name, "--changed", "--format", "json").out)
        return {config["name"]: config["value"] for config in shown}

    assert changed() == {}
    changing = ("configs", "alter", "--topic", name)
    headrace(
        *changing, "--set", "retention.ms=5000", "--set", "segment.bytes=2000000", "--append", "cleanup.policy=compact"
    )
    assert changed() == {"retention.ms": "5000", "segment.bytes": "2000000", "cleanup.policy": "delete,compact"}
    headrace(*changing, "--delete", "retention.ms", "--subtract", "cleanup.policy=delete")
    assert changed() == {"segment.bytes": "2000000", "cleanup.policy": "compact"}
    table = headrace("configs", "describe", "--topic", name).lines
    assert table[0].split() == ["NAME", "VALUE", "SOURCE"]
    assert ["segment.bytes", "2000000", "topic"] in [line.split() for line in table]


def test_a_node_has_settings_too(headrace: Call, refused: Call) -> None:
    assert any(line.startswith("num.partitions ") for line in headrace("configs", "describe", "--broker", "1").lines)
    nobody = refused("configs", "describe", "--broker", "77")
    assert nobody.code == 3
    assert "there is no node 77; these are: 1" in nobody.talk


@pytest.mark.parametrize("wrong", ["nonsense=1", "retention.ms=soon"])
def test_a_bad_setting_is_refused_and_nothing_is_changed(headrace: Call, refused: Call, wrong: str) -> None:
    name = new_name()
    assert refused("topics", "create", "--name", name, "--config", wrong).code == 1
    headrace("topics", "create", "--name", name)
    altered = refused("configs", "alter", "--topic", name, "--set", "segment.bytes=2000000", "--set", wrong)
    assert altered.code == 1
    assert wrong.partition("=")[0] in altered.talk
    assert headrace("configs", "describe", "--topic", name, "--changed").out == ""


# Produce and consume.


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_messages_make_the_round_trip_in_every_codec(node: NodeProcess, headrace: Call, compression: str) -> None:
    name = new_name(compression)
    headrace("topics", "create", "--name", name, "--partitions", "1")
    lines = "".join(f"message {number} {'x' * 50}\n" for number in range(2000))
    sent = headrace("produce", "--topic", name, "--compression", compression, stdin=lines)
    assert sent.out == ""
    assert sent.talk.startswith("sent 2,000 messages (")
    assert headrace("consume", "--topic", name).out == lines
    assert {batch.codec for batch in node.stored_batches(name)} == {Codec[compression.upper()]}


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement(headrace: Call, acks: str) -> None:
    name = new_name()
    headrace("topics", "create", "--name", name, "--partitions", "1")
    headrace("produce", "--topic", name, "--acks", acks, stdin="a\nb\n")
    # Without acknowledgement the command may end before the node has read what was sent.
    deadline_s = time.monotonic() + PATIENCE_S
    while (read := headrace("consume", "--topic", name).lines) != ["a", "b"] and time.monotonic() < deadline_s:
        pass
    assert read == ["a", "b"]


def test_keys_decide_the_partition_as_for_java_clients(headrace: Call) -> None:
    name = new_name()
    headrace("topics", "create", "--name", name, "--partitions", "3")
    headrace("produce", "--topic", name, "--key-separator", ":", stdin="".join(f"k{n}:v{n}\n" for n in range(30)))
    shown = headrace("consume", "--topic", name, "--show", "partition,key,value", "--separator", " ").lines
    found = {key: (int(partition), value) for partition, key, value in map(str.split, shown)}
    assert found == {f"k{n}": (partition_for_key(f"k{n}".encode(), 3), f"v{n}") for n in range(30)}


def test_messages_without_key_are_spread_evenly(headrace: Call) -> None:
    name = new_name()
    headrace("topics", "create", "--name", name, "--partitions", "3")
    headrace("produce", "--topic", name, "--batch-bytes", "1000", stdin=("x" * 80 + "\n") * 900)
    facts = json.loads(headrace("topics", "describe", "--name", name, "--format", "json").out)
    assert all(280 <= part["end_offset"] <= 320 for part in facts["partitions"])


def test_json_lines_carry_everything_and_back(headrace: Call) -> None:
    name, copy = new_name(), new_name("copy")
    for topic in (name, copy):
        headrace("topics", "create", "--name", topic, "--partitions", "2")
    messages = [
        {"key": "k", "value": {"a": 1}, "headers": {"h": "1"}, "partition": 1, "timestamp": 1_700_000_000_000},
        {"key": None, "value": None, "partition": 0, "timestamp": "2023-11-14T22:13:20.001Z"},
        {"key": "/w==", "key_encoding": "base64", "value": "ü", "partition": 0, "timestamp": 1_700_000_000_002},
    ]
    headrace("produce", "--topic", name, "--json", stdin="".join(json.dumps(message) + "\n" for message in messages))
    printed = headrace("consume", "--topic", name, "--format", "json", "--order", "time").out
    assert [json.loads(line) for line in printed.splitlines()] == [
        {
            "topic": name,
            "partition": 1,
            "offset": 0,
            "timestamp": 1_700_000_000_000,
            "key": "k",
            "value": '{"a":1}',
            "headers": [{"key": "h", "value": "1"}],
        },
        {
            "topic": name,
            "partition": 0,
            "offset": 0,
            "timestamp": 1_700_000_000_001,
            "key": None,
            "value": None,
            "headers": [],
        },
        {
            "topic": name,
            "partition": 0,
            "offset": 1,
            "timestamp": 1_700_000_000_002,
            "key": "/w==",
            "key_encoding": "base64",
            "value": "ü",
            "headers": [],
        },
    ]
    headrace("produce", "--topic", copy, "--json", stdin=printed)
    copied = headrace("consume", "--topic", copy, "--format", "json", "--order", "time").out
    assert copied == printed.replace(name, copy)


def test_bytes_that_are_not_text_pass_unchanged(node: NodeProcess, headrace: Call) -> None:
    name = new_name()
    headrace("topics", "create", "--name", name, "--partitions", "1")
    raw = bytes(range(256)).replace(b"\n", b"")
    headrace("produce", "--topic", name, stdin=raw + b"\n")
    done = subprocess.run(
        [*COMMAND, "consume", "--topic", name],
        capture_output=True,
        timeout=PATIENCE_S,
        env=environment(node.bootstrap_servers),
        check=True,
    )
    assert done.stdout == raw + b"\n"


def test_files_headers_and_a_fixed_key(headrace: Call, tmp_path: Path) -> None:
    name = new_name()
    headrace("topics", "create", "--name", name, "--partitions", "1")
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    first.write_text("a\nb")
    second.write_text("c\n")
    options = ("--key", "same", "--header", "origin=file", "--header", "empty=")
    headrace("produce", "--topic", name, "--file", str(first), "--file", str(second), *options)
    shown = headrace("consume", "--topic", name, "--show", "key,headers,value", "--separator", "|").lines
    assert shown == [f"same|origin=file,empty=|{value}" for value in "abc"]


def test_messages_are_merged_by_time(headrace: Call) -> None:
    name = new_name()
    headrace("topics", "create", "--name", name, "--partitions", "4")
    chance = random.Random(4)
    times = sorted(chance.sample(range(1_700_000_000_000, 1_700_000_100_000), 3000))
    lines = [json.dumps({"value": str(at), "timestamp": at, "partition": chance.randrange(4)}) for at in times]
    headrace("produce", "--topic", name, "--json", stdin="\n".join(lines))
    merged = headrace("consume", "--topic", name, "--order", "time", "--max-poll-records", "7").lines
    assert merged == [str(at) for at in times]
    assert sorted(headrace("consume", "--topic", name).lines) == merged


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--from", "earliest"], "abcdef"),
        (["--from", "latest"], ""),
        (["--from", "4"], "ef"),
        (["--offset", "5"], "f"),
        (["--offset", "99"], ""),
        (["--from", "-2"], "ef"),
        (["--from=-99"], "abcdef"),
        (["--from", "1700000000003"], "def"),
        (["--from", "2023-11-14T22:13:20.005Z"], "f"),
        (["--from", "2030-01-01"], ""),
        (["--from", "@5"], "abcdef"),
        (["--max-messages", "3"], "abc"),
        (["--max-messages", "0"], ""),
        (["--from", "1", "--max-messages", "2", "--order", "time"], "bc"),
        (["--max-poll-records", "1"], "abcdef"),
    ],
)
def test_reading_starts_and_stops_where_it_is_told(
    node: NodeProcess, six_letters: str, options: list[str], expected: str
) -> None:
    ran = call_here(node.bootstrap_servers, "consume", "--topic", six_letters, *options)
    assert ran.code == 0
    assert ran.lines == list(expected)
    assert ran.talk == f"read {len(expected)} message{'' if len(expected) == 1 else 's'}\n"


@pytest.fixture(scope="module")
def six_letters(node: NodeProcess) -> str:
    """A topic whose one partition holds a to f, a millisecond apart."""
    name = node.create_topic(new_name("letters"))
    lines = [json.dumps({"value": letter, "timestamp": 1_700_000_000_000 + i}) for i, letter in enumerate("abcdef")]
    ran = call(node.bootstrap_servers, "produce", "--topic", name, "--json", stdin="\n".join(lines))
    assert ran.code == 0
    return name


def test_one_message_by_its_offset(headrace: Call, refused: Call, six_letters: str) -> None:
    place = ("get", "--topic", six_letters, "--partition", "0", "--offset")
    assert headrace(*place, "3").out == "d\n"
    assert json.loads(headrace(*place, "5", "--format", "json").out)["offset"] == 5
    beyond = refused(*place, "6")
    assert (beyond.code, beyond.out) == (3, "")
    assert beyond.talk == f"error: {six_letters}-0 has no message at offset 6; it holds offsets 0 to 5\n"
    assert refused("get", "--topic", six_letters, "--partition", "1", "--offset", "0").code == 3


def test_chosen_partitions_alone_are_read(headrace: Call, refused: Call) -> None:
    name = new_name()
    headrace("topics", "create", "--name", name, "--partitions", "3")
    for partition in "012":
        headrace("produce", "--topic", name, "--partition", partition, stdin=f"in {partition}\n")
    assert headrace("consume", "--topic", name, "--partition", "2").lines == ["in 2"]
    assert sorted(headrace("consume", "--topic", name, "--partition", "0", "--partition", "2").lines) == [
        "in 0",
        "in 2",
    ]
    missing = refused("consume", "--topic", name, "--partition", "3")
    assert missing.code == 3
    assert "has no partition 3; it has 0 to 2" in missing.talk
    assert refused("produce", "--topic", name, "--partition", "3", stdin="x\n").code == 3


# Bad lines.


def test_a_bad_line_stops_and_what_came_before_is_sent(headrace: Call, refused: Call) -> None:
    name = new_name()
    headrace("topics", "create", "--name", name, "--partitions", "1")
    stopped = refused("produce", "--topic", name, "--key-separator", ":", stdin="a:1\nb:2\noops\nc:3\n")
    assert stopped.code == 1
    assert "sent 2 messages" in stopped.talk
    assert "error: stdin, line 3: no ':' between key and value\nhint: " in stopped.talk
    assert headrace("consume", "--topic", name).lines == ["1", "2"]


def test_bad_lines_can_be_skipped(headrace: Call) -> None:
    name = new_name()
    headrace("topics", "create", "--name", name, "--partitions", "1")
    lines = '{"value": "a"}\nnonsense\n{"value": "b", "colour": 1}\n{"value": "c"}\n'
    skipped = headrace("produce", "--topic", name, "--json", "--on-error", "skip", stdin=lines)
    assert "skipped: stdin, line 2: not JSON" in skipped.talk
    assert "skipped: stdin, line 3: unknown field 'colour'" in skipped.talk
    assert "sent 2 messages" in skipped.talk
    assert "2 lines skipped" in skipped.talk
    assert headrace("consume", "--topic", name).lines == ["a", "c"]


def test_a_message_too_large_is_an_error_that_names_the_limit(headrace: Call, refused: Call) -> None:
    name = new_name()
    headrace("topics", "create", "--name", name, "--partitions", "1", "--config", "max.message.bytes=1000")
    large = refused("produce", "--topic", name, stdin="small\n" + "x" * 5000 + "\n")
    assert large.code == 1
    assert "max.message.bytes" in large.talk
    assert "1 failed" in large.talk
    headrace("produce", "--topic", name, stdin=("y" * 100 + "\n") * 50)  # a batch larger than the limit is split
    assert headrace("consume", "--topic", name).lines == ["small", *["y" * 100] * 50]


# The cluster.


def test_a_healthy_cluster(headrace: Call, node: NodeProcess) -> None:
    shown = headrace("cluster", "status").lines
    facts = dict(line.split(":", 1) for line in shown[: shown.index("")])
    assert facts["State"].strip() == "healthy"
    assert facts["Offline partitions"].strip() == "0"
    assert shown[-1].split()[:5] == ["1", node.bootstrap_servers, "-", "up", "controller"]
    assert json.loads(headrace("cluster", "status", "--format", "json").out)["is_healthy"] is True


# Ways to be wrong.


def test_no_node_is_told_at_once_with_what_to_do() -> None:
    consume = ["consume", "--topic", "t"]
    for arguments in (["topics", "list"], consume, [*consume, "--follow"], ["produce", "--topic", "t"]):
        ran = call(NOBODY, *arguments)
        assert (ran.code, ran.out) == (1, "")
        assert f"no node of the cluster answers ({NOBODY}: connection refused)" in ran.talk
        assert "headrace serve" in ran.talk


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "describe", "--name", "nowhere"],
        ["topics", "alter", "--name", "nowhere", "--partitions", "2"],
        ["topics", "delete", "--name", "nowhere", "--yes"],
        ["configs", "describe", "--topic", "nowhere"],
        ["produce", "--topic", "nowhere"],
        ["consume", "--topic", "nowhere"],
        ["consume", "--topic", "nowhere", "--follow"],
        ["get", "--topic", "nowhere", "--partition", "0", "--offset", "0"],
    ],
)
def test_an_unknown_topic_is_exit_code_three(node: NodeProcess, arguments: list[str]) -> None:
    ran = call_here(node.bootstrap_servers, *arguments)
    assert (ran.code, ran.out) == (3, "")
    assert "nowhere" in ran.talk
    assert "hint: `headrace topics list`" in ran.talk


@pytest.mark.parametrize("name", ["..", "a/b", "", "ü", "x" * 250])
def test_names_that_no_topic_can_have(node: NodeProcess, name: str) -> None:
    ran = call_here(node.bootstrap_servers, "topics", "create", "--name", name)
    assert ran.code == 1
    assert "topic" in ran.talk


def test_the_address_may_stand_anywhere(node: NodeProcess) -> None:
    here = ("--bootstrap-server", node.bootstrap_servers)
    for arguments in ([*here, "topics", "list"], ["topics", *here, "list"], ["topics", "list", *here]):
        assert call(NOBODY, *arguments).code == 0
    assert call(NOBODY, "--bootstrap-server", NOBODY, "topics", "list", *here).code == 0
    assert call(NOBODY, *here, "topics", "list", "--bootstrap-server", NOBODY).code == 1
    assert call(NOBODY, "topics", "list", f"--bootstrap-server={NOBODY},{node.bootstrap_servers}").code == 0


def test_a_second_node_on_the_same_address_says_what_to_do(node: NodeProcess, tmp_path: Path) -> None:
    ran = call(NOBODY, "serve", "--data-dir", str(tmp_path), "--listen", node.bootstrap_servers, "--http", "off")
    assert ran.code == 1
    assert f"cannot listen on {node.bootstrap_servers}" in ran.talk
    assert ran.talk.rstrip().endswith("is another node running there? Choose another with --listen")


def test_an_address_that_is_none_of_this_machine_is_not_taken_for_another_node(tmp_path: Path) -> None:
    nowhere = ("--listen", "no.such.host.invalid:0", "--insecure")
    ran = call(NOBODY, "serve", "--data-dir", str(tmp_path), *nowhere, "--http", "off")
    assert ran.code == 1
    assert "cannot listen on no.such.host.invalid:0" in ran.talk
    assert "another node" not in ran.talk
    assert ran.talk.rstrip().endswith("choose another with --listen")


def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    wanted = tmp_path / "file" / "data"
    ran = call(NOBODY, "serve", "--data-dir", str(wanted), "--listen", "127.0.0.1:0", "--http", "off")
    assert ran.code == 1
    assert f"the data directory {wanted} cannot be used: " in ran.talk


def test_a_setting_that_nobody_knows_is_refused_with_the_command_that_lists_them(tmp_path: Path) -> None:
    ran = call(NOBODY, "serve", "--data-dir", str(tmp_path), "-Xfoo=1")
    assert ran.code == 1
    assert "there is no broker setting 'foo'; `headrace configs describe --broker ID`" in ran.talk


# Pipes and signals.


def unread_bytes(pipe: IO[bytes]) -> int:
    """What lies in it, and nobody has taken out yet."""
    (count,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))
    return int(count)


def test_following_shows_what_arrives_and_ends_cleanly_with_ctrl_c(node: NodeProcess, headrace: Call) -> None:
    for order in ("none", "time"):
        name = new_name(order)
        headrace("topics", "create", "--name", name, "--partitions", "2")
        with started(
            node, "consume", "--topic", name, "--follow", "--order", order, "--idle-wait-ms", "50"
        ) as following:
            assert following.stdout is not None
            assert following.stderr is not None
            for value in (b"first", b"second"):
                headrace("produce", "--topic", name, stdin=value + b"\n")
                assert following.stdout.readline() == value + b"\n"
            following.send_signal(signal.SIGINT)
            assert following.wait(PATIENCE_S) == 130
            assert following.stderr.read() == b"read 2 messages\n"


def test_ctrl_c_sends_what_was_read(node: NodeProcess, headrace: Call) -> None:
    name = new_name()
    headrace("topics", "create", "--name", name, "--partitions", "1")
    with started(node, "produce", "--topic", name, "--linger-ms", "3600000") as producing:
        assert producing.stdin is not None
        assert producing.stderr is not None
        producing.stdin.write(b"one\ntwo\n")
        producing.stdin.flush()
        # Whoever has read them hands them all to the producer in the same turn, which no signal ends.
        wait_until(lambda: unread_bytes(producing.stdin) == 0, "the lines are read")
        producing.send_signal(signal.SIGINT)
        assert producing.wait(PATIENCE_S) == 130
        assert b"sent 2 messages" in producing.stderr.read()
    assert headrace("consume", "--topic", name).lines == ["one", "two"]


def test_a_line_typed_is_a_message_sent(node: NodeProcess, headrace: Call) -> None:
    name = new_name()
    headrace("topics", "create", "--name", name, "--partitions", "1")
    with (
        started(node, "produce", "--topic", name) as producing,
        started(node, "consume", "--topic", name, "--follow", "--max-messages", "2") as following,
    ):
        assert producing.stdin is not None
        assert following.stdout is not None
        for value in (b"hello\n", b"world\n"):
            producing.stdin.write(value)
            producing.stdin.flush()
            assert following.stdout.readline() == value
        assert following.wait(PATIENCE_S) == 0
        producing.stdin.close()
        assert producing.wait(PATIENCE_S) == 0


def test_a_reader_that_leaves_is_no_error(node: NodeProcess, headrace: Call) -> None:
    name = new_name()
    headrace("topics", "create", "--name", name, "--partitions", "1")
    headrace("produce", "--topic", name, stdin=("x" * 1000 + "\n") * 2000)
    with started(node, "consume", "--topic", name) as reading:
        assert reading.stdout is not None
        assert reading.stderr is not None
        assert reading.stdout.readline() == b"x" * 1000 + b"\n"
        reading.stdout.close()
        assert reading.wait(PATIENCE_S) == 0
        assert b"rror" not in reading.stderr.read()


def test_a_producer_survives_the_restart_of_its_node(own_node: NodeProcess) -> None:
    assert call(own_node.bootstrap_servers, "topics", "create", "--name", "events", "--partitions", "1").code == 0
    with started(own_node, "produce", "--topic", "events") as producing:
        assert producing.stdin is not None
        assert producing.stderr is not None
        producing.stdin.write(b"before\n")
        producing.stdin.flush()
        while call(own_node.bootstrap_servers, "consume", "--topic", "events").out != "before\n":
            pass
        own_node.kill()
        producing.stdin.write(b"while it is away\n")
        producing.stdin.flush()
        own_node.start()
        producing.stdin.write(b"after\n")
        producing.stdin.close()
        assert producing.wait(PATIENCE_S) == 0, producing.stderr.read()
    assert call(own_node.bootstrap_servers, "consume", "--topic", "events").lines == [
        "before",
        "while it is away",
        "after",
    ]


def test_a_node_that_is_told_many_times_to_stop_stops_cleanly(own_node: NodeProcess) -> None:
    for _ in range(20):
        os.kill(own_node.pid, signal.SIGTERM)
        time.sleep(0.002)
    own_node.stop()  # which fails the test unless the node ends with 0, and without a sign of a bug in its log
