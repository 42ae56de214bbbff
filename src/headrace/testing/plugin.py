"""pytest fixtures that come with `pip install headrace`.

`kafka_broker`             a broker for the whole test session (each xdist worker has its own)
`kafka_bootstrap_servers`  its address
`kafka_topic`              a fresh topic for one test

    def test_round_trip(kafka_bootstrap_servers, kafka_topic):
        producer = Producer({"bootstrap.servers": kafka_bootstrap_servers})
        producer.produce(kafka_topic, b"hello")
        producer.flush()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.testing.broker import Broker


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds to pytest's options: `--kafka-partitions N` for topics, `--kafka-config NAME=VALUE` for the broker."""
    group = parser.getgroup("headrace", "a Kafka broker for tests")
    group.addoption(
        "--kafka-partitions", type=int, default=1, metavar="N", help="partitions of each kafka_topic (default: 1)"
    )
    group.addoption(
        "--kafka-config",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the broker, such as num.partitions=4; may be given several times",
    )


def _configs(texts: list[str]) -> dict[str, str]:
    configs = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator:
            raise pytest.UsageError(f"--kafka-config takes NAME=VALUE, not {text!r}")
        configs[name] = value
    return configs


@pytest.fixture(scope="session")
def kafka_broker(pytestconfig: pytest.Config) -> Iterator[Broker]:
    """A real broker in this process; its data is gone at the end of the session."""
    from headrace.testing.broker import Broker  # noqa: PLC0415 - suites that do not use it should not pay for it

    with Broker(configs=_configs(pytestconfig.getoption("--kafka-config"))) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_bootstrap_servers(kafka_broker: Broker) -> str:
    """The broker's address, as every Kafka client wants it."""
    return kafka_broker.bootstrap_servers


@pytest.fixture
def kafka_topic(kafka_broker: Broker, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a topic that only this test uses; deleted afterwards."""
    letters = [
        letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "-" for letter in request.node.name
    ]
    name = f"{''.join(letters)[:200]}-{kafka_broker.node.world.entropy.token(4).hex()}"
    kafka_broker.create_topic(name, partitions=request.config.getoption("--kafka-partitions"))
    yield name
    kafka_broker.delete_topic(name)
