"""`headrace users` against a living node: passwords come from files, stdin and terminals, and from nowhere else."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.clients.commands import COMMAND, call, call_here, environment
from tests.clients.nodes import new_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.clients.commands import Ran
    from tests.clients.nodes import NodeProcess

    Call = Callable[..., Ran]

pytest_plugins = ["tests.clients.node_fixtures"]

FAILED, USAGE, NOT_FOUND = 1, 2, 3
BOTH = [{"mechanism": "SCRAM-SHA-256", "iterations": 8192}, {"mechanism": "SCRAM-SHA-512", "iterations": 8192}]


@pytest.fixture
def headrace(node: NodeProcess) -> Call:
    return lambda *arguments: call_here(node.bootstrap_servers, *arguments)


@pytest.fixture
def user(headrace: Call) -> Iterator[str]:
    name = new_name("user")
    yield name
    headrace("users", "delete", "--name", name, "--yes")


@pytest.fixture
def password_file(tmp_path: Path) -> str:
    path = tmp_path / "password"
    path.write_text("hunter2\n")
    return str(path)


def mechanisms_of(headrace: Call, name: str) -> list[dict[str, object]]:
    ran = headrace("users", "list", "--name", name, "--format", "json")
    found = json.loads(ran.out) if ran.code == 0 else []
    return found[0]["mechanisms"] if found else []


def test_a_user_is_created_listed_replaced_and_deleted(headrace: Call, user: str, password_file: str) -> None:
    create = ("users", "create", "--name", user, "--password-file", password_file)
    ran = headrace(*create)
    assert (ran.code, ran.talk) == (0, f"created user {user} for SCRAM-SHA-256 and SCRAM-SHA-512\n")
    assert mechanisms_of(headrace, user) == BOTH

    again = headrace(*create)
    assert again.code == FAILED
    assert f"user '{user}' has a password for SCRAM-SHA-256 and SCRAM-SHA-512 already" in again.talk
    assert "--replace" in again.talk
    replaced = headrace(*create, "--replace", "--mechanism", "scram-sha-512", "--iterations", "4096")
    assert replaced.talk == f"replaced the password of user {user} for SCRAM-SHA-512\n"
    assert mechanisms_of(headrace, user) == [BOTH[0], {"mechanism": "SCRAM-SHA-512", "iterations": 4096}]

    headrace("users", "delete", "--name", user, "--mechanism", "SCRAM-SHA-256")
    rows = [line.split() for line in headrace("users", "list").out.splitlines()]
    assert rows[0] == ["NAME", "MECHANISM", "ITERATIONS"]
    assert [row for row in rows if row[0] == user] == [[user, "SCRAM-SHA-512", "4096"]]
    assert headrace("users", "delete", "--name", user).talk == f"deleted user {user} for SCRAM-SHA-512\n"
    for verb in ("list", "delete"):
        gone = headrace("users", verb, "--name", user)
        assert (gone.code, f"user '{user}' has no such password" in gone.talk) == (NOT_FOUND, True)


def test_a_password_comes_from_stdin(node: NodeProcess, headrace: Call, user: str) -> None:
    create = ("users", "create", "--name", user, "--password-file", "-")
    assert call(node.bootstrap_servers, *create, stdin="hunter2\n").code == 0
    assert mechanisms_of(headrace, user) == BOTH
    for nonsense in ("", "\n", "two\nlines\n", b"\xff"):
        ran = call(node.bootstrap_servers, *create, "--replace", stdin=nonsense)
        assert (ran.code, "expected stdin to hold one line" in ran.talk) == (FAILED, True)


def test_somebody_at_a_terminal_is_asked_and_nothing_is_shown(node: NodeProcess, headrace: Call, user: str) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb+", buffering=0) as terminal:
        process = subprocess.Popen(
            [*COMMAND, "users", "create", "--name", user],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(node.bootstrap_servers),
            start_new_session=True,
        )
        os.close(theirs)
        shown = b""
        for question in (b"Password: ", b"Again: "):
            while not shown.endswith(question):
                shown += terminal.read(1)
            terminal.write(b"hunter2\n")
        while b"created user" not in shown:
            shown += terminal.read(1)
        assert process.wait(60) == 0
    assert b"hunter2" not in shown
    assert mechanisms_of(headrace, user) == BOTH


def test_nobody_to_ask_is_wrong_usage(node: NodeProcess) -> None:
    ran = call(node.bootstrap_servers, "users", "create", "--name", "x")
    assert ran.code == USAGE
    assert "give --password-file FILE" in ran.talk


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--password-file", "/nowhere"), FAILED, "--password-file: cannot read /nowhere: no such file or directory"),
        (("--mechanism", "PLAIN"), USAGE, "'PLAIN' is not one of 'scram-sha-256'"),
        (("--iterations", "100"), USAGE, "4096<=x<=16384"),
    ],
)
def test_what_is_wrong_is_said(headrace: Call, arguments: tuple[str, ...], code: int, words: str) -> None:
    ran = headrace("users", "create", "--name", "x", *arguments)
    assert ran.code == code
    assert words in ran.talk


def test_a_name_that_the_cluster_does_not_take(headrace: Call, password_file: str) -> None:
    ran = headrace("users", "create", "--name", "a\tb", "--password-file", password_file)
    assert ran.code == FAILED
    assert "printable characters" in ran.talk
