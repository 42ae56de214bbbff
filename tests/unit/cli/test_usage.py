from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from headrace import __version__
from headrace.cli.app import COMMANDS, run
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOBODY = "127.0.0.1:1"  # nothing listens on port 1


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"headrace {__version__}\n"


@pytest.mark.parametrize("content", [b"\xff\xfe", b"no toml at all", b"a = 1\na = 2\n"])
def test_a_file_of_settings_that_is_not_toml(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "node.toml"
    path.write_bytes(content)
    assert run(["serve", "--data-dir", str(tmp_path / "data"), "--config", str(path)]) == 2
    assert "is not TOML" in capsys.readouterr().err


def test_who_founds_a_cluster_is_among_its_voters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--data-dir", str(tmp_path / "data"), "--http", "off", "--cluster-listen", "127.0.0.1:0"]
    assert run(["serve", "--node-id", "4", *place, "--voters", "1@127.0.0.1:1"]) == 1
    assert "--voters does not name node 4" in capsys.readouterr().err


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--listen", "127.0.0.1:{taken}"], "cannot listen on 127.0.0.1:{taken}"),
        (["--listen", "127.0.0.1:{free}", "--http", "127.0.0.1:{taken}"], "Choose another with --http"),
        (["--listen", "127.0.0.1:{free}", "--cluster-listen", "127.0.0.1:{taken}"], "another with --cluster-listen"),
        (["--listen", "127.0.0.1:{free}", "--voters", "1@127.0.0.1:{taken}"], "another with --cluster-listen"),
        (["--listen", "127.0.0.1:{free}", "--voters", "1@127.0.0.1:{free}"], "--listen and --cluster-listen are both"),
        (["--listen", "127.0.0.1:{free}", "--http", "0.0.0.0:{free}"], "--listen and --http are both"),
        (["--node-id", "4", "--voters", "1@127.0.0.1:1"], "--voters does not name node 4"),
        (["--voters", "2@127.0.0.1:1,3@127.0.0.1:2"], "--voters does not name node 1"),
        (["--listen", "0.0.0.0:{free}", "--voters", "1@127.0.0.1:1"], "add --advertise"),
        (["--voters", "1@0.0.0.0:1"], "other nodes cannot find this one at 0.0.0.0:1"),
        (["--listen", "0.0.0.0:{free}"], "PLAINTEXT at 0.0.0.0:{free} serves everybody who reaches it"),
        (["--listen", "127.0.0.1:{free}", "--http", "0.0.0.0:1"], "HTTP at 0.0.0.0:1 tells everybody"),
        (
            ["--listen", "127.0.0.1:{free}", "--cluster-listen", "10.0.0.1:1"],
            "CONTROLLER at 10.0.0.1:1 takes everybody",
        ),
        (
            ["--listen", "SSL://127.0.0.1:{free}", "-Xssl.keystore.location=/not/there"],
            "cannot read /not/there: no such file",
        ),
    ],
)
def test_a_first_start_that_fails_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], taken_port: int, arguments: list[str], reason: str
) -> None:
    """What is left would be a cluster of its own, and the next start, with the right words, would be refused."""
    ports = {"taken": taken_port, "free": free_port()}
    told = [argument.format(**ports) for argument in arguments]
    assert run(["serve", "--data-dir", str(tmp_path / "data"), "--http", "off", *told]) == 1
    assert reason.format(**ports) in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_a_secret_on_the_command_line_is_refused_and_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("ssl.key.password", "listener.name.outside.ssl.keystore.key"):
        assert run(["serve", "-X", f"{name}=hunter2"]) == 2
        said = capsys.readouterr().err
        assert f"{name} is a secret, and everybody on this machine can read command lines" in said
        assert "hunter2" not in said


def test_a_file_with_a_secret_that_everybody_can_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "node.toml"
    file.write_text('listeners = "SSL://127.0.0.1:0"\nssl.keystore.location = "/k"\nssl.key.password = "hunter2"\n')
    for mode, is_named in ((0o644, True), (0o600, False)):
        file.chmod(mode)
        place = ["--data-dir", str(tmp_path / "data"), "--http", "off"]
        assert run(["serve", *place, "--config", str(file)]) == 1  # there is no /k
        said = capsys.readouterr().err
        assert ("node.toml holds ssl.key.password, and everybody on this machine can read it" in said) == is_named
        assert "hunter2" not in said


def test_who_can_never_make_an_access_rule_is_told_at_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], taken_port: int
) -> None:
    place = ["--data-dir", str(tmp_path / "data"), "--http", "off", "--listen", f"127.0.0.1:{taken_port}"]
    assert run(["serve", *place, "-X", "authorizer.class.name=headrace"]) == 1
    assert "super.users is empty" in capsys.readouterr().err


def test_nobody_is_told_to_find_a_node_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--data-dir", str(tmp_path / "data"), "--http", "off", "--cluster-listen", "0.0.0.0:0"]
    assert run(["serve", *place, "--listen", "127.0.0.1:0"]) == 1
    assert "give --cluster-listen an address of this machine" in capsys.readouterr().err


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["topics", "nonsense"],
        ["cluster", "elect-leaders", "--unclean"],
        ["cluster", "elect-leaders", "--unclean", "--topic", "x"],  # nobody can be asked here
        ["serve", "--node-id", "99999999999"],
        ["serve", "--voters", "99999999999@127.0.0.1:9093"],
        ["serve", "--listen", "a..b:9092"],
        ["serve", "--advertise", "a b:9092"],
        ["topics", "create"],
        ["topics", "create", "--name", "x", "--partitions", "0"],
        ["topics", "create", "--name", "x", "--config", "nothing"],
        ["topics", "list", "--format", "xml"],
        ["configs", "describe"],
        ["configs", "describe", "--topic", "x", "--broker", "1"],
        ["configs", "alter", "--topic", "x"],
        ["consume", "--topic", "x", "--from", "yesterday"],
        ["consume", "--topic", "x", "--from", "1960-01-01"],
        ["consume", "--topic", "x", "--show", "colour"],
        ["produce", "--topic", "x", "--key", "k", "--json"],
        ["produce", "--topic", "x", "--key-separator", ""],
        ["produce", "--topic", "x", "--file", "does-not-exist"],
        ["produce", "--topic", "x", "--acks", "2"],
        ["produce", "--topic", "x", "--delivery", "twice"],
        ["produce", "--topic", "x", "--delivery", "at-most-once", "--acks", "all"],
        ["consume", "--topic", "x", "--delivery", "at-least-once"],
        ["consume", "--topic", "x", "--group", "g", "--delivery", "exactly-once"],
        ["consume", "--topic", "x", "--group", "g", "--to-topic", "y", "--isolation", "read-uncommitted"],
        ["consume", "--topic", "x", "--group", "g", "--partition", "0"],
        ["consume", "--topic", "x", "--group", "g", "--from", "-5"],
        ["consume", "--topic", "x", "--group", "g", "--offset", "5"],
        ["consume", "--topic", "x", "--group", "g", "--order", "time"],
        ["consume", "--topic", "x", "--dedupe-header", "id", "--dedupe-window", "0"],
        ["groups", "list", "--state", "asleep"],
        ["groups", "describe"],
        ["groups", "reset-offsets", "--group", "g", "--to-earliest"],
        ["groups", "reset-offsets", "--group", "g", "--to-earliest", "--topic", "x", "--all-topics"],
        ["groups", "reset-offsets", "--group", "g", "--topic", "x"],
        ["groups", "reset-offsets", "--group", "g", "--topic", "x", "--to-earliest", "--to-latest"],
        ["groups", "reset-offsets", "--group", "g", "--topic", "x", "--to-datetime", "yesterday"],
        ["groups", "reset-offsets", "--group", "g", "--topic", "x", "--to-datetime", "1960-01-01"],
        ["groups", "reset-offsets", "--group", "g", "--topic", "x:y", "--to-earliest"],
        ["groups", "delete-offsets", "--group", "g"],
        ["lag"],
        ["transactions", "describe"],
        ["transactions", "describe", "--topic", "x"],
        ["transactions", "describe", "--transactional-id", "t", "--topic", "x", "--partition", "0"],
        ["transactions", "abort", "--topic", "x", "--partition", "0"],
        ["transactions", "abort", "--transactional-id", "t", "--producer-id", "1"],
        ["topics", "list", "--bootstrap-server", "host:port"],
        ["serve", "--listen", "nowhere:x"],
        ["serve", "--node-id", "-1"],
        ["serve", "--node-id", "1", "--voters", "1,2,3"],
        ["serve", "--node-id", "1", "--voters", "1@here:9093,1@there:9093"],
        ["serve", "--node-id", "1", "--voters", "1@here:9093,2@here:9093"],
        ["serve", "--node-id", "1", "--voters", "1@here:9093", "--join", "there:9093"],
    ],
)
def test_wrong_usage_is_exit_code_two_without_asking_anybody(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_BOOTSTRAP_SERVER", NOBODY)
    assert run(arguments) == 2
    out, talk = capsys.readouterr()
    assert out == ""
    assert "rror: " in talk


INT16_RANGE = "<=x<=32767."
INT32_RANGE = "<=x<=2147483647."
INT64_RANGE = "<=x<=9223372036854775807."


@pytest.mark.parametrize(
    ("arguments", "too_much", "expected"),
    [
        (["topics", "create", "--name", "x", "--replication-factor"], 2**15, f"1{INT16_RANGE}"),
        (["topics", "create", "--name", "x", "--partitions"], 2**31, f"1{INT32_RANGE}"),
        (["topics", "alter", "--name", "x", "--partitions"], 2**31, f"1{INT32_RANGE}"),
        (["cluster", "drain", "--node"], 2**31, f"0{INT32_RANGE}"),
        (["cluster", "remove", "--node"], 2**31, f"0{INT32_RANGE}"),
        (["cluster", "scrub", "--node"], 2**31, f"0{INT32_RANGE}"),
        (["configs", "describe", "--broker"], 2**31, f"0{INT32_RANGE}"),
        (["configs", "alter", "--set", "a=b", "--broker"], 2**31, f"0{INT32_RANGE}"),
        (["serve", "--node-id"], 2**31, f"0{INT32_RANGE}"),
        (["produce", "--topic", "x", "--partition"], 2**31, f"0{INT32_RANGE}"),
        (["produce", "--topic", "x", "--batch-bytes"], 2**31, f"1{INT32_RANGE}"),
        (["produce", "--topic", "x", "--transaction-timeout-ms"], 2**31, f"1{INT32_RANGE}"),
        (["consume", "--topic", "x", "--partition"], 2**31, f"0{INT32_RANGE}"),
        (["consume", "--topic", "x", "--offset"], 2**63, f"0{INT64_RANGE}"),
        (["consume", "--topic", "x", "--max-poll-records"], 2**31, f"1{INT32_RANGE}"),
        (["consume", "--topic", "x", "--from"], 2**63, "at most 9223372036854775807 milliseconds since 1970"),
        (["get", "--topic", "x", "--offset", "0", "--partition"], 2**31, f"0{INT32_RANGE}"),
        (["get", "--topic", "x", "--partition", "0", "--offset"], 2**63, f"0{INT64_RANGE}"),
        (["groups", "reset-offsets", "--group", "g", "--all-topics", "--to-offset"], 2**63, f"0{INT64_RANGE}"),
        (["transactions", "describe", "--topic", "x", "--partition"], 2**31, f"0{INT32_RANGE}"),
        (["transactions", "abort", "--topic", "x", "--partition", "0", "--producer-id"], 2**63, f"0{INT64_RANGE}"),
    ],
)
def test_a_number_that_no_field_can_hold_is_wrong_usage(
    arguments: list[str],
    too_much: int,
    expected: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADRACE_BOOTSTRAP_SERVER", NOBODY)
    assert run([*arguments, str(too_much)]) == 2
    assert expected in capsys.readouterr().err.replace("\n", " ")
