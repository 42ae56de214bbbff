"""Which cluster a command goes to, and how it comes in: from options in any place, the environment and a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from headrace.cli.terminal.client_settings import ClientChoice, chosen_client
from headrace.cli.terminal.complaints import Complaint
from headrace.cli.terminal.options import cluster_options, noun
from headrace.client.security.credentials import PasswordCredentials
from headrace.client.security.settings import OPEN

if TYPE_CHECKING:
    from pathlib import Path

LOGIN = """\
security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-512
sasl.username=alice
sasl.password=hunter2
"""


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEADRACE_BOOTSTRAP_SERVER", "HEADRACE_COMMAND_CONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "client.properties"
    path.write_text(LOGIN)
    path.chmod(0o600)
    return path


def chosen(after: str = "", *, between: str = "", before: str = "") -> ClientChoice:
    """By `headrace BEFORE things BETWEEN look AFTER`."""
    found: list[ClientChoice] = []

    @click.group()
    @cluster_options
    def headrace() -> None: ...

    things = noun("Things.")

    @things.command()
    @cluster_options
    def look() -> None:
        found.append(chosen_client())

    headrace.add_command(things, "things")
    headrace.main([*before.split(), "things", *between.split(), "look", *after.split()], standalone_mode=False)
    return found[0]


def test_without_anything_it_is_this_machine() -> None:
    assert chosen() == ClientChoice("127.0.0.1:9092", OPEN)


@pytest.mark.parametrize("place", ["before", "between", "after"])
def test_the_options_may_stand_anywhere(config: Path, place: str) -> None:
    options = (
        f"--command-config {config} --bootstrap-server a:1 --command-property sasl.mechanism=SCRAM-SHA-256 "
        "--command-property sasl.username=bob"
    )
    choice = chosen(**{place: options})
    assert choice.bootstrap_servers == "a:1"
    assert choice.security.credentials == PasswordCredentials("SCRAM-SHA-256", "bob", "hunter2")


def test_properties_add_up_and_the_nearest_to_the_verb_counts(config: Path) -> None:
    choice = chosen(
        before=f"--command-config {config} --command-property sasl.username=bob",
        between="--command-property sasl.username=carol",
        after="--command-property sasl.mechanism=SCRAM-SHA-256",
    )
    assert choice.security.credentials == PasswordCredentials("SCRAM-SHA-256", "carol", "hunter2")


def test_the_files_servers_count_if_nothing_else_names_any(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text(LOGIN + "bootstrap.servers=file:1,file:2\n")
    monkeypatch.setenv("HEADRACE_COMMAND_CONFIG", str(config))
    assert chosen().bootstrap_servers == "file:1,file:2"
    assert chosen("--command-property bootstrap.servers=property:1").bootstrap_servers == "property:1"
    monkeypatch.setenv("HEADRACE_BOOTSTRAP_SERVER", "variable:1")
    assert chosen().bootstrap_servers == "variable:1"
    assert chosen("--bootstrap-server option:1").bootstrap_servers == "option:1"


@pytest.mark.parametrize("name", ["sasl.password", "sasl.jaas.config", "ssl.key.password", "ssl.key.pem"])
def test_a_secret_on_the_command_line_is_refused(name: str) -> None:
    with pytest.raises(Complaint, match=f"--command-property {name}: a secret on a command line") as caught:
        chosen(f"--command-property {name}=hunter2")
    assert "${file:/path}" in caught.value.hint
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"


def test_where_a_secret_is_may_stand_on_the_command_line(monkeypatch: pytest.MonkeyPatch, config: Path) -> None:
    monkeypatch.setenv("OTHER_SECRET", "hunter3")
    choice = chosen(f"--command-config {config} --command-property sasl.password=${{env:OTHER_SECRET}}")
    assert choice.security.credentials == PasswordCredentials("SCRAM-SHA-512", "alice", "hunter3")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# who\nsecurity.protocol=TLS\n", r"line 2: security.protocol is 'TLS'; expected one of"),
        ("sasl.mechanism=PLAIN\n\n", r"line 1: sasl.mechanism is set, but security.protocol is not set"),
        (LOGIN + "sasl.pasword=x\n", r"line 5: sasl.pasword is not a setting .* is sasl.password meant\?"),
        (LOGIN.replace("hunter2", "${env:NOWHERE}"), "line 4: sasl.password: the environment has no NOWHERE"),
        ("security.protocol=SASL_PLAINTEXT\n", r"properties: sasl.mechanism is not set"),
        (LOGIN + "bootstrap.servers=a:b\n", "properties: bootstrap.servers: "),
    ],
)
def test_an_error_says_which_file_and_line(config: Path, text: str, words: str) -> None:
    config.write_text(text)
    with pytest.raises(Complaint, match=words) as caught:
        chosen(f"--command-config {config}")
    assert "hunter2" not in str(caught.value)


def test_what_a_property_gets_wrong_is_not_looked_for_in_the_file(config: Path) -> None:
    with pytest.raises(Complaint, match=r"^sasl.mechanism is 'MAGIC'"):
        chosen(f"--command-config {config} --command-property sasl.mechanism=MAGIC")


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(Complaint, match=r"cannot read /nowhere/client\.properties: no such file"):
        chosen("--command-config /nowhere/client.properties")


def test_who_else_may_read_the_password_is_warned_of(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.chmod(0o644)
    config.write_text(LOGIN + "acks=all\n")
    chosen(f"--command-config {config}")
    warnings = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[0] for line in warnings] == ["warning", "warning"]
    assert f"chmod 600 {config}" in warnings[0]
    assert "acks has no effect here" in warnings[1]
