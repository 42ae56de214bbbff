"""What an operator is told before a new cluster is made: each loss by its name, and none that is not one."""

from __future__ import annotations

from typing import Any

from headrace.cli.rescue.text import NAMES_MAX, report_text, warnings


def partition(number: int, fate: str = "kept", **more: Any) -> dict[str, Any]:
    known = {"start_offset": 0, "end_offset": 80, "leader": 2, "isr": [2, 1], "damaged": [], "torn_bytes": 0}
    return {"topic": "orders", "partition": number, "fate": fate, **known, **more}


def report(*partitions: dict[str, Any], **more: Any) -> dict[str, Any]:
    nothing = {"last_decision_ms": 0, "stranded_groups": [], "unreadable_position_batches": 0}
    return {"partitions": list(partitions), **nothing, **more}


def test_when_everything_is_kept_only_what_nobody_can_know_is_said() -> None:
    (said,) = warnings(report(partition(0)))
    assert "1970-01-01T00:00:00.000Z" in said
    assert "a time that it does not tell" in warnings(report(partition(0), last_decision_ms=None))[0]


def test_each_loss_is_named() -> None:
    hurt = {"first_offset": 3, "last_offset": 5, "problem": "the disk cannot read it"}
    stranded = {"group": "billing", "topic": "orders", "partition": 1, "committed": 99, "end_offset": 80}
    _, lost, behind, torn, damaged, groups, unreadable = warnings(
        report(
            partition(0, "lost", end_offset=None),
            partition(1, "behind"),
            partition(2, torn_bytes=17),
            partition(3, damaged=[hurt]),
            stranded_groups=[stranded],
            unreadable_position_batches=2,
        )
    )
    assert "no copy of 1 partition" in lost
    assert lost.endswith("orders-0")
    assert behind.endswith("orders-1 (ends at offset 80)")
    assert torn.endswith("orders-2")
    assert damaged.endswith("orders-3")
    assert groups.endswith("billing at 99 of orders-1")
    assert unreadable.startswith("2 of the batches")


def test_a_long_list_is_cut_and_says_so() -> None:
    said = warnings(report(*(partition(number, "lost") for number in range(NAMES_MAX + 5))))[1]
    assert f"orders-{NAMES_MAX - 1} and 5 more" in said


def test_the_table_says_what_is_wrong_with_each() -> None:
    hurt = {"first_offset": 3, "last_offset": 5, "problem": "the batch does not match its CRC"}
    text = report_text(report(partition(0, damaged=[hurt], torn_bytes=1), partition(1, "lost", isr=[])))
    assert "offsets 3 to 5 are damaged: the batch does not match its CRC; a torn end of 1 byte" in text
    assert "nobody" in text
