from __future__ import annotations

import pytest

from headrace.cli.serve.command import flattened
from headrace.cli.terminal.complaints import Complaint, explain
from headrace.cli.terminal.output import bytes_text, duration_text, moment_text, plural, table
from headrace.cli.topics.text import partition_lines
from headrace.client.connections.view import Partition, Topic
from headrace.client.errors import (
    ClientError,
    ClusterUnreachable,
    ConnectionLost,
    DeliveryFailed,
    NeverReached,
    NobodyListens,
    RequestTimedOut,
    TransactionAborted,
)
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_NODE, NO_TOPIC_ID, Epoch, NodeId


def partition(index: int, leader: int, *isr: int) -> Partition:
    return Partition(index, NodeId(leader), Epoch(0), (1, 2, 3), isr, ())


def topic(*partitions: Partition) -> Topic:
    return Topic("events", NO_TOPIC_ID, False, partitions)


def test_partitions_are_described_as_the_design_document_shows_them() -> None:
    lines = partition_lines(topic(partition(0, 1, 1, 2, 3), partition(1, 2, 2, 3, 1), partition(2, 3, 3, 1, 2)))
    assert lines == [
        "Partition 0: Leader=1, ISR=[1,2,3]",
        "Partition 1: Leader=2, ISR=[2,3,1]",
        "Partition 2: Leader=3, ISR=[3,1,2]",
    ]


def test_a_partition_without_leader_says_so() -> None:
    assert partition_lines(topic(partition(0, NO_NODE))) == ["Partition 0: Leader=none, ISR=[]"]


def test_tables_are_aligned_with_numbers_to_the_right() -> None:
    assert table(("NAME", "COUNT", "NOTE"), [("a", 5, None), ("longer", 1000, True)]) == (
        "NAME    COUNT  NOTE\n"
        "a           5  -\n"
        "longer   1000  yes"
    )  # fmt: skip


def test_a_number_that_is_missing_stays_in_its_column() -> None:
    assert table(("LAG",), [(1000,), (None,), ("unknown",)]) == "    LAG\n   1000\n      -\nunknown"


def test_what_somebody_has_sent_does_not_steer_the_terminal() -> None:
    group = "caf\u00e9\x1b[2J\nmine  Stable\x9b"
    shown = "caf\u00e9\\x1b[2J\\nmine  Stable\\x9b"
    assert table(("GROUP",), [(group,)]) == f"GROUP\n{shown}"


def test_an_empty_table_is_its_head() -> None:
    assert table(("NAME", "COUNT"), []) == "NAME  COUNT"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 KB"), (1536, "1.54 KB"), (32_000_000, "32 MB"), (5e12, "5 TB")],
)
def test_sizes(count: float, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0 s"),
        (40, "0.0 s"),
        (400, "0.4 s"),
        (12_300, "12 s"),
        (119_000, "119 s"),
        (120_000, "2 min"),
        (7_199_000, "120 min"),
        (9_000_000, "2.5 h"),
        (9 * 86_400_000, "9 days"),
    ],
)
def test_durations(duration_ms: int, text: str) -> None:
    assert duration_text(duration_ms) == text


def test_moments_are_in_utc() -> None:
    assert moment_text(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"


def test_plurals() -> None:
    assert [plural(count, "message") for count in (0, 1, 2000)] == ["0 messages", "1 message", "2,000 messages"]


def aborted(cause: Exception) -> TransactionAborted:
    error = TransactionAborted("it cannot be committed")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "what", "hint", "exit_code"),
    [
        (Complaint("wrong", "do this", 2), "wrong", "do this", 2),
        (Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no topic"), "no topic", "topics list", 3),
        (Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, "gone"), "gone", "", 3),
        (Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, "there"), "there", "--if-not-exists", 1),
        (Refusal(ErrorCode.POLICY_VIOLATION, "no"), "no", "", 1),
        (Refusal(ErrorCode.GROUP_ID_NOT_FOUND, "no group"), "no group", "groups list", 3),
        (Refusal(ErrorCode.NON_EMPTY_GROUP, "active"), "active", "stop its consumers", 1),
        (Refusal(ErrorCode.NOT_COORDINATOR, "moved"), "moved", "try again", 1),
        (Refusal(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "no id"), "no id", "transactions list", 3),
        (Refusal(ErrorCode.LEADER_NOT_AVAILABLE, "no leader"), "no leader", "cluster status", 1),
        (ClusterUnreachable("nobody"), "nobody", "", 1),
        (NobodyListens("127.0.0.1:1: connection refused"), "127.0.0.1:1: connection refused", "cluster status", 1),
        (RequestTimedOut("no answer"), "no answer", "cluster status", 1),
        (NeverReached("it advertises wrongly"), "it advertises wrongly", "", 1),
        (DeliveryFailed("2 lost", 2, ConnectionLost("refused")), "2 lost", "cluster status", 1),
        (
            DeliveryFailed("2 lost", 2, Refusal(ErrorCode.MESSAGE_TOO_LARGE, "big")),
            "2 lost",
            "max.message.bytes",
            1,
        ),
        (aborted(Refusal(ErrorCode.MESSAGE_TOO_LARGE, "big")), "the transaction was aborted: big", "max.message", 1),
        (aborted(ClientError("lost")), "the transaction was aborted: lost", "run it again", 1),
        (FileNotFoundError(2, "No such file or directory", "x.txt"), "x.txt: no such file or directory", "", 1),
        (KeyError("oops"), "unexpected KeyError: 'oops'", "bug in headrace", 1),
    ],
)
def test_errors_are_told_in_words(error: Exception, what: str, hint: str, exit_code: int) -> None:
    told, advice, code = explain(error)
    assert (told, code) == (what, exit_code)
    assert hint in advice
    assert bool(hint) == bool(advice)


def test_settings_from_toml_have_dotted_names() -> None:
    content = {"log": {"retention": {"ms": 1000}}, "num.partitions": 3, "auto": {"on": True}, "names": ["a", "b"]}
    assert flattened(content) == [
        ("log.retention.ms", "1000"),
        ("num.partitions", "3"),
        ("auto.on", "true"),
        ("names", "a,b"),
    ]
