from __future__ import annotations

import pytest

from headrace.client.connections.view import parse_address, parse_addresses
from headrace.runtime.network import Address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9092", [Address("localhost", 9092)]),
        ("kafka", [Address("kafka", 9092)]),
        ("a:1,b:2 , c", [Address("a", 1), Address("b", 2), Address("c", 9092)]),
        ("[::1]:9094", [Address("::1", 9094)]),
        ("[fe80::1]", [Address("fe80::1", 9092)]),
        ("a:65535,", [Address("a", 65535)]),
    ],
)
def test_addresses_are_read(text: str, expected: list[Address]) -> None:
    assert list(parse_addresses(text)) == expected


@pytest.mark.parametrize(
    "text", ["", " , ", ":9092", "a:0", "a:65536", "a:-1", "a:b", "a:1:2", "[::1", "[::1]9092", "a:٣"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="address"):
        parse_addresses(text)


def test_a_listener_may_ask_for_any_port() -> None:
    assert parse_address("127.0.0.1:0", port_min=0) == Address("127.0.0.1", 0)
