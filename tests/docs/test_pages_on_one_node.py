"""What the pages do with one node: their commands and programs run as they stand."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import shlex
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.clients.clusters import wait_until
from tests.clients.commands import call
from tests.clients.nodes import PATIENCE_S
from tests.clients.test_stock_server_properties import running, stock_file
from tests.docs.terminal import NUMBERS, ON_THE_PAGES, Terminal, listed_names
from tests.ports import free_ports

if TYPE_CHECKING:
    from pathlib import Path

    from tests.clients.nodes import NodeProcess
    from tests.docs.told_blocks import ToldBlocks

pytest_plugins = ["pytester", "tests.clients.node_fixtures", "tests.docs.told_blocks"]

# An installed headrace registers its fixtures by itself; one that is merely on the path has to be named.
PLUGIN: Final = () if entry_points(group="pytest11", name="headrace") else ("-p", "headrace.testing.plugin")
LAGS: Final = (60, 40, 0)
SENT: Final = 1000


@pytest.fixture
def terminal(own_node: NodeProcess, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "reader", own_node.bootstrap_servers)


def run_program(text: str, origin: str) -> None:
    """As in a notebook: `await` may stand outside of functions."""
    program = compile(text, origin, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    running_on = eval(program, {})
    if inspect.iscoroutine(running_on):
        asyncio.run(running_on)


def test_first_steps(terminal: Terminal, told_blocks: ToldBlocks) -> None:
    terminal.follow(told_blocks.take("$ . .venv/bin/activate"))


def test_the_client_that_is_used_already(own_node: NodeProcess, told_blocks: ToldBlocks) -> None:
    program = told_blocks.take("from confluent_kafka")
    assert ON_THE_PAGES in program.text
    run_program(program.text.replace(ON_THE_PAGES, own_node.bootstrap_servers), str(program))
    assert call(own_node.bootstrap_servers, "consume", "--topic", "events").lines == ["signed out"]


def test_the_command_line(terminal: Terminal, told_blocks: ToldBlocks) -> None:
    terminal.follow(told_blocks.take("$ headrace topics create"))
    terminal.follow(told_blocks.take("$ headrace topics create --name copy"))
    shown = json.loads(told_blocks.take('{"topic"').text)
    printed = terminal.type("headrace consume --topic events --format json 2> /dev/null").splitlines()
    messages = [json.loads(line) for line in printed]
    assert all(list(message) == list(shown) for message in messages)
    assert {**shown, "timestamp": 0} in [{**message, "timestamp": 0} for message in messages]


@pytest.fixture
def my_group(own_node: NodeProcess) -> list[Consumer]:
    """Two consumers in it have read almost everything."""
    own_node.create_topic("events", 3)
    producer = Producer({"bootstrap.servers": own_node.bootstrap_servers})
    for partition in range(len(LAGS)):
        for number in range(SENT):
            producer.produce("events", str(number), partition=partition)
    assert producer.flush(PATIENCE_S) == 0
    consumers = [
        Consumer(
            {
                "bootstrap.servers": own_node.bootstrap_servers,
                "group.id": "my-group",
                "client.id": f"Consumer-{number}",
                "enable.auto.commit": False,
            }
        )
        for number in (1, 2)
    ]
    for consumer in consumers:
        consumer.subscribe(["events"])

    def is_shared() -> bool:
        for consumer in consumers:
            consumer.poll(0.1)
        return sorted(len(consumer.assignment()) for consumer in consumers) == [1, 2]

    wait_until(is_shared, "each reads its part")
    for consumer in consumers:
        read_to = [TopicPartition(it.topic, it.partition, SENT - LAGS[it.partition]) for it in consumer.assignment()]
        consumer.commit(offsets=read_to, asynchronous=False)
    return consumers


def test_a_group_and_its_lag(my_group: list[Consumer], terminal: Terminal, told_blocks: ToldBlocks) -> None:
    lines, table = told_blocks.take("$ headrace groups describe").commands
    if len(my_group[0].assignment()) == 1:  # whoever's member id comes first in the alphabet gets more
        lines = lines._replace(shown=lines.shown.translate(str.maketrans("12", "21")))
    terminal.follow_commands([table], NUMBERS)
    terminal.follow_commands([lines])
    for consumer in my_group:  # a group that is read by somebody cannot be moved
        consumer.close()
    terminal.follow(told_blocks.take("$ headrace groups reset-offsets"))
    terminal.follow(told_blocks.take("$ headrace lag"))


def test_settings_are_given_and_shown(terminal: Terminal, told_blocks: ToldBlocks) -> None:
    terminal.follow(told_blocks.take("headrace topics create"))
    described = terminal.type("headrace configs describe --topic events")
    assert re.search(r"^retention\.ms +3600000\b", described, re.MULTILINE)
    assert re.search(r"^max\.message\.bytes +5000000\b", described, re.MULTILINE)


def test_a_node_is_run(tmp_path: Path, told_blocks: ToldBlocks) -> None:
    by_options, by_file = (told_blocks.take(f"headrace serve --{word}") for word in ("data-dir", "config"))
    clients, http, nodes = free_ports(3)
    data = tmp_path / "data"
    line = by_options.text.replace("/var/lib/headrace", str(data))
    line = line.replace(":9092", f":{clients}").replace(":8080", f":{http}")
    with running(*shlex.split(line)[2:], log=tmp_path / "options.log") as ready:
        assert f"kafka://0.0.0.0:{clients} http://127.0.0.1:{http} data={data}" in ready
        assert call(f"127.0.0.1:{clients}", "topics", "create", "--name", "events").code == 0
        assert call(f"127.0.0.1:{clients}", "produce", "--topic", "events", stdin="a line\n").code == 0
    listed = listed_names(told_blocks.take("replication-offset-checkpoint").text)
    there = {path.relative_to(data).as_posix() for path in data.rglob("*") if path.is_file()}
    assert not [path for path in there if not any(re.fullmatch(name, path) for name in listed)]

    file = stock_file("server.properties", tmp_path, {"9092": clients, "9093": nodes})
    line = by_file.text.replace("/etc/kafka/server.properties", str(file))
    with running(*shlex.split(line)[2:], log=tmp_path / "file.log") as ready:
        assert f"kafka://0.0.0.0:{clients}" in ready


def test_fixtures_in_a_suite_of_ones_own(pytester: pytest.Pytester, told_blocks: ToldBlocks) -> None:
    pytester.makepyfile(**{f"test_{number}": block.text for number, block in enumerate(told_blocks.take_all())})
    pytester.runpytest_subprocess(*PLUGIN, "-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_a_broker_of_ones_own(told_blocks: ToldBlocks) -> None:
    program = told_blocks.take("from headrace.testing import Broker")
    run_program(program.text, str(program))
