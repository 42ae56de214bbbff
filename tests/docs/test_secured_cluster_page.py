"""From nothing to a secured cluster, as the page has it; and what was secret then is found nowhere."""

from __future__ import annotations

import os
import shlex
import ssl
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from headrace.client.security.files import parse_properties
from tests.clients.clusters import wait_until
from tests.clients.commands import COMMAND
from tests.clients.nodes import PATIENCE_S
from tests.docs.blocks import blocks_of
from tests.docs.terminal import NUMBERS, Terminal
from tests.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.docs.blocks import Block
    from tests.docs.told_blocks import ToldBlocks

pytestmark = pytest.mark.xdist_group("cluster")
pytest_plugins = ["tests.docs.told_blocks"]

PAGE: Final = "docs/security.md"
MAKE: Final = "headrace security init"
START: Final = "headrace serve --config secure/node.toml --node-id 1"
ADMINISTER: Final = "$ export HEADRACE_COMMAND_CONFIG"
ALICE: Final = "security.protocol=SASL_SSL"
USE: Final = "$ echo tea"
ON_THE_PAGE: Final = ("9092", "9093", "9192", "9193", "9292", "9293")


def block(start: str) -> Block:
    return next(found for found in blocks_of(PAGE) if found.first_line.startswith(start))


class CommandLines(threading.Thread):
    """Looks at the command lines of all processes, as `ps` does, as often as it can."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: set[bytes] = set()
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.wait(0.005):
            for process in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.seen.add(process.read_bytes())
                except OSError:
                    continue  # it has ended

    def stop(self) -> None:
        self._is_over.set()
        self.join()


class PageCluster:
    """Made and started by the commands of the page, on ports that are free."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._ports = dict(zip(ON_THE_PAGE, map(str, free_ports(len(ON_THE_PAGE))), strict=True))
        self.addresses = ",".join(f"127.0.0.1:{self._ports[port]}" for port in ON_THE_PAGE[::2])
        self.terminal = Terminal(home / "reader", self.addresses)
        self.terminal.environment.pop("HEADRACE_COMMAND_CONFIG", None)
        self.directory = self.terminal.home
        self.followed: list[Block] = []
        self.talk = ""
        self.type_all(block(MAKE))
        self._nodes: list[subprocess.Popen[bytes]] = []

    def type_all(self, told: Block) -> None:
        """As one shell would: what is exported counts for the commands behind it."""
        self.followed.append(told)
        for command in told.commands:
            if command.line.startswith("export "):
                name, _, value = command.line.removeprefix("export ").partition("=")
                self.terminal.environment[name] = value
            else:
                self.talk += self.terminal.follow_commands([command], NUMBERS)

    def start(self) -> None:
        told = block(START)
        self.followed.append(told)
        for number, command in enumerate(told.commands, start=1):
            line = command.line
            for port, free in self._ports.items():
                line = line.replace(f":{port}", f":{free}")
            program, *arguments = shlex.split(line)
            assert program == "headrace"
            with self.log(number).open("ab") as log:
                started = subprocess.Popen([*COMMAND, *arguments], cwd=self.directory, stdout=log, stderr=log)
            self._nodes.append(started)
        wait_until(lambda: all("is ready" in self.log(it).read_text() for it in (1, 2, 3)), "three nodes are ready")

    def walk(self) -> None:
        """What the page does on the cluster that runs."""
        self.type_all(block(ADMINISTER))
        settings = block(ALICE)
        (self.directory / "alice.properties").write_text(settings.text)
        self.followed.append(settings)
        self.type_all(block(USE))

    def log(self, number: int) -> Path:
        return self.home / f"node-{number}.log"

    def stop(self) -> None:
        for node in self._nodes:
            node.terminate()
        codes = [node.wait(PATIENCE_S) for node in self._nodes]
        assert codes == [0] * len(codes)


@pytest.fixture(scope="module")
def command_lines() -> Iterator[CommandLines]:
    watch = CommandLines()
    watch.start()
    yield watch
    watch.stop()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, command_lines: CommandLines) -> Iterator[PageCluster]:
    assert command_lines.is_alive()
    running = PageCluster(tmp_path_factory.mktemp("secured"))
    try:
        running.start()
        running.walk()
        yield running
    finally:
        running.stop()


def test_from_nothing_to_a_secured_cluster(cluster: PageCluster, told_blocks: ToldBlocks) -> None:
    """The fixture has done it, since all tests here need it."""
    assert list(told_blocks.take_all()) == cluster.followed


def test_what_was_refused_is_in_the_audit(cluster: PageCluster, told_blocks: ToldBlocks) -> None:
    """After the walk: alice was not allowed to delete a topic. It reaches the topic of the audit a moment later."""
    told = told_blocks.take("$ headrace audit")
    (command,) = told.commands
    wait_until(lambda: "DeleteTopics" in cluster.terminal.type(command.line), "the refusal is in the topic")
    cluster.talk += cluster.terminal.follow_commands(told.commands, NUMBERS)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("produce --topic others", 1, "no access rule allows DESCRIBE on topic 'others'"),
        ("consume --topic others", 1, "no access rule allows DESCRIBE on topic 'others'"),
        ("consume --topic orders --group others", 1, "may not DESCRIBE group 'others'"),
        ("groups delete --group billing-1 --yes", 1, "no access rule allows DELETE on group 'billing-1'"),
        ("topics create --name others", 1, "may not CREATE topic 'others'"),
        ("configs alter --topic orders --set retention.ms=1", 1, "may not ALTER_CONFIGS topic 'orders'"),
        ("cluster status", 1, "may not DESCRIBE cluster"),
        ("users list", 1, "may not DESCRIBE cluster"),
        ("topics describe --name orders --verbose", 0, "warning: sizes are not shown"),
        ("topics list", 0, "orders"),
    ],
)
def test_what_is_not_allowed_is_told_with_the_right_that_it_takes(
    cluster: PageCluster, arguments: str, code: int, words: str
) -> None:
    """Alice may read and write one topic, and read as some groups."""
    line = f"echo x | headrace {arguments} --command-config alice.properties; test $? = {code}"
    assert words in cluster.terminal.type(line)


def test_what_is_secret_is_in_no_log_data_command_line_or_answer(
    cluster: PageCluster, command_lines: CommandLines
) -> None:
    """After the walk through the page, and after all that can go wrong with a password."""
    directory, terminal = cluster.directory, cluster.terminal
    admin = parse_properties((directory / "secure" / "admin.properties").read_text())["sasl.password"]
    planted = {"admin": admin, "alice": (directory / "alice.password").read_text().strip(), "bob": "planted-Kx81-pass"}
    apart = {directory / "secure" / "admin.properties", directory / "alice.password", directory / "bob.password"}
    (directory / "bob.password").write_text(planted["bob"])

    terminal.environment["HEADRACE_COMMAND_CONFIG"] = "secure/admin.properties"
    said = cluster.talk
    wrong = "--command-property sasl.username=bob --command-property 'sasl.password=${file:bob.password}'"
    for line, expected in (
        (f"headrace topics list {wrong}", "the login of 'bob' by SCRAM-SHA-512 failed"),
        ("headrace users create --name bob --password-file bob.password", "created user bob"),
        ("headrace users create --name bob --password-file bob.password", "has a password for"),
        ("headrace users create --name bob --password-file bob.password --replace", "replaced the password"),
        (f"headrace topics list {wrong} --command-property sasl.mechanism=PLAIN", "takes the mechanisms"),
        (f"headrace topics list {wrong}", ""),
        (f"HEADRACE_DEBUG=1 headrace topics delete --name nowhere --yes {wrong}", "no access rule allows DESCRIBE"),
        ("headrace users list --format json", '"bob"'),
        ("headrace configs describe --broker 1", "(hidden)"),
        ("headrace topics list --command-property ssl.ca.location=/nowhere", "cannot read /nowhere"),
        ("headrace topics list --command-config /dev/null --command-property security.protocol=SSL", ""),
        ("headrace users delete --name bob --yes", "deleted user bob"),
        ("headrace audit --format json", '"Login"'),
        ("headrace consume --topic __audit --format json", "bob"),
    ):
        printed = terminal.type(f"{line} 2>&1 || true")
        assert expected in printed, f"$ {line}\n{printed}"
        said += printed

    for name, secret in planted.items():
        assert secret not in said, f"the password of {name} was said"
        needle = secret.encode()
        found = [path for path in _files(cluster.home) if path not in apart and needle in path.read_bytes()]
        assert found == [], f"the password of {name} is on disk"
        assert not any(needle in line for line in command_lines.seen), f"the password of {name} was on a command line"
    assert any(b"bob.password" in line for line in command_lines.seen), "command lines were not looked at"


def _files(directory: Path) -> Iterator[Path]:
    for place, _, names in os.walk(directory):
        for name in names:
            path = Path(place, name)
            if path.is_file():
                yield path


def test_everything_that_a_node_keeps_is_its_owner_s_alone(cluster: PageCluster) -> None:
    for path in _files(cluster.directory / "secure"):
        assert path.stat().st_mode & 0o077 == 0, path
    for number in (1, 2, 3):
        for path in _files(cluster.directory / f"data-{number}"):
            assert path.stat().st_mode & 0o077 == 0, path


def shown_certificate(cluster: PageCluster) -> str:
    """What a new connection to the first node is shown."""
    host, _, port = cluster.addresses.split(",")[0].partition(":")
    return ssl.get_server_certificate((host, int(port)), ca_certs=str(cluster.directory / "secure" / "ca.pem"))


def test_nodes_show_new_certificates_without_a_restart(cluster: PageCluster) -> None:
    before = shown_certificate(cluster)
    assert before in (cluster.directory / "secure" / "node.pem").read_text()
    cluster.terminal.type("headrace security renew --dir secure --days 30")
    wait_until(lambda: shown_certificate(cluster) != before, "the first node shows the new certificate")
    assert shown_certificate(cluster) in (cluster.directory / "secure" / "node.pem").read_text()
    cluster.terminal.environment["HEADRACE_COMMAND_CONFIG"] = "secure/admin.properties"
    cluster.terminal.type("headrace cluster status")  # which fails if one of them is missed
