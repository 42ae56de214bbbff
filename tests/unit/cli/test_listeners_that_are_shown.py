from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.serve.addresses import ServeOptions, listener_configs
from headrace.runtime.network import Address

HERE, EVERYWHERE, ELSEWHERE = Address("127.0.0.1", 9092), Address("0.0.0.0", 9092), Address("broker.example", 443)


@pytest.mark.parametrize(
    ("listen", "advertised", "shown"),
    [
        (HERE, None, "PLAINTEXT://127.0.0.1:9092"),
        (EVERYWHERE, ELSEWHERE, "PLAINTEXT://broker.example:443"),
        (EVERYWHERE, None, None),
        (Address("127.0.0.1", 0), None, None),
    ],
)
def test_where_clients_are_sent_is_shown_where_it_is_known(
    listen: Address, advertised: Address | None, shown: str | None
) -> None:
    configs = listener_configs(ServeOptions(Path(), listen, None, advertised))
    assert configs["listeners"] == f"PLAINTEXT://{listen}"
    assert configs.get("advertised.listeners") == shown
