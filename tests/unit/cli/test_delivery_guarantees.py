"""What `--delivery` means, and which combinations are refused."""

from __future__ import annotations

import click
import pytest

from headrace.cli.messages.consume import membership_of
from headrace.cli.messages.produce import guarantee_of
from headrace.cli.terminal.delivery import Delivery

MOST, LEAST, EXACTLY = Delivery


@pytest.mark.parametrize(
    ("delivery", "acks", "promised", "acks_used"),
    [
        (None, None, LEAST, "all"),
        (None, "0", LEAST, "0"),
        (None, "1", LEAST, "1"),
        (MOST, None, MOST, "0"),
        (MOST, "0", MOST, "0"),
        (LEAST, None, LEAST, "all"),
        (LEAST, "all", LEAST, "all"),
        (EXACTLY, "all", EXACTLY, "all"),
    ],
)
def test_a_producer_waits_for_what_it_promises(
    delivery: Delivery | None, acks: str | None, promised: Delivery, acks_used: str
) -> None:
    guarantee = guarantee_of(delivery, acks, None)
    assert (guarantee.delivery, guarantee.acks) == (promised, acks_used)
    assert (guarantee.transactional_id is not None) == (promised is EXACTLY)


def test_each_run_has_a_transactional_id_of_its_own_unless_it_is_named() -> None:
    first, second = (guarantee_of(EXACTLY, None, None).transactional_id for _ in range(2))
    assert first != second
    assert guarantee_of(EXACTLY, None, "import").transactional_id == "import"


@pytest.mark.parametrize(
    ("delivery", "acks", "transactional_id", "words"),
    [
        (MOST, "all", None, "--delivery at-most-once needs --acks 0, not all"),
        (LEAST, "1", None, "--delivery at-least-once needs --acks all, not 1"),
        (EXACTLY, "0", None, "--delivery exactly-once needs --acks all"),
        (LEAST, None, "import", "--transactional-id goes with --delivery exactly-once"),
        (None, None, "import", "--transactional-id goes with --delivery exactly-once"),
    ],
)
def test_a_producer_promises_nothing_that_it_cannot_keep(
    delivery: Delivery | None, acks: str | None, transactional_id: str | None, words: str
) -> None:
    with pytest.raises(click.UsageError, match=words):
        guarantee_of(delivery, acks, transactional_id)


def test_a_member_prints_at_least_once_unless_told_otherwise() -> None:
    assert membership_of(None, None, None, None, None) is None
    member = membership_of("g", None, None, None, None)
    assert member is not None
    assert (member.delivery, member.to_topic, member.transactional_id) == (LEAST, None, None)
    assert membership_of("g", MOST, "i", None, None) == ("g", MOST, "i", None, None)


def test_a_copier_promises_exactly_once() -> None:
    assert membership_of("g", None, "i", "out", None) == ("g", EXACTLY, "i", "out", "headrace-copy-g-i")
    assert membership_of("g", EXACTLY, None, "out", "t") == ("g", EXACTLY, None, "out", "t")
    nameless = [membership_of("g", EXACTLY, None, "out", None) for _ in range(2)]
    assert nameless[0] != nameless[1]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((None, LEAST, None, None, None), "--delivery needs --group"),
        ((None, None, "i", None, None), "--instance-id needs --group"),
        ((None, None, None, "out", None), "--to-topic needs --group"),
        ((None, None, None, None, "t"), "--transactional-id needs --group"),
        (("g", EXACTLY, None, None, None), "exactly-once needs --to-topic"),
        (("g", LEAST, None, None, "t"), "--transactional-id goes with --to-topic"),
        (("g", LEAST, None, "out", None), "copies exactly once"),
        (("g", MOST, None, "out", None), "copies exactly once"),
    ],
)
def test_a_member_promises_nothing_that_it_cannot_keep(
    given: tuple[str | None, Delivery | None, str | None, str | None, str | None], words: str
) -> None:
    with pytest.raises(click.UsageError, match=words):
        membership_of(*given)
