"""The `headrace` command as a user calls it: in a process of its own, its output and its exit code kept."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from typing import TYPE_CHECKING, NamedTuple

import pytest

from headrace.cli.app import run
from tests.clients.nodes import PATIENCE_S

if TYPE_CHECKING:
    from tests.clients.nodes import NodeProcess

COMMAND = (sys.executable, "-m", "headrace")
NOBODY = "127.0.0.1:1"  # nothing listens on port 1


class Ran(NamedTuple):
    code: int
    out: str
    talk: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def environment(address: str) -> dict[str, str]:
    return {**os.environ, "HEADRACE_BOOTSTRAP_SERVER": address}


def call(address: str, *arguments: str, stdin: str | bytes = "") -> Ran:
    given = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        [*COMMAND, *arguments],
        input=given,
        capture_output=True,
        timeout=PATIENCE_S,
        env=environment(address),
        check=False,
    )
    ran = Ran(done.returncode, done.stdout.decode(errors="surrogateescape"), done.stderr.decode())
    assert "Traceback" not in ran.talk
    return ran


def call_here(address: str, *arguments: str) -> Ran:
    """The same without a process of its own, for tables of cases."""
    out, talk = TextIOWrapper(BytesIO()), TextIOWrapper(BytesIO())
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(talk):
        patch.setenv("HEADRACE_BOOTSTRAP_SERVER", address)
        code = run(list(arguments))
    texts = []
    for stream in (out, talk):
        stream.flush()
        stream.seek(0)
        texts.append(stream.read())
    return Ran(code, *texts)


def started(node: NodeProcess, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(node.bootstrap_servers),
    )
