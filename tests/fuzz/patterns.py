"""Regular expressions that members of groups send, and the names that a node compares with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.coordinators.patterns.name_patterns import STATES_MAX, NamePattern
from headrace.coordinators.transactions.listing import IdPattern
from headrace.model.errors import ErrorCode, Refusal
from tests.fuzz.harness import Target, expect

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES: Final = ("", "a", "orders", "orders.eu-1", "a" * 249, "__consumer_offsets")


def play(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    try:
        pattern = NamePattern(text)
        ids = IdPattern(text)
        assert len(pattern._states) <= STATES_MAX
        for name in NAMES:
            assert pattern.matches(name) == ids.matches(name), "an alphabet that is larger makes a difference"
        ids.matches(text)
    except Refusal as refusal:
        expect(refusal, ErrorCode.INVALID_REGULAR_EXPRESSION)


SEEDS: Final = """
orders.* (a+)+$ ((a{30}){30}){30} (.*)* (a|b|ab)*c [^\\d]{1000} (.{0,99}){0,9} (?i)ORDERS ^a$ [a-z0-9_]+ (?P<n>a)|b
\\w\\.\\D a{2,} [[:alpha:]] (?:a?){20}a{20} [\\]a-] \\x41 é|ü
"""


def seeds() -> Iterator[bytes]:
    return (text.encode() for text in SEEDS.split())


TARGET: Final = Target("patterns", play, seeds, bytes_max=256, share=0.2)
