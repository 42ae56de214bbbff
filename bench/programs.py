"""The C programs of `native/`: compiled when their source is newer, run with a time limit, answered in JSON."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
SOURCES = HERE / "native"
BINARIES = HERE / "bin"
PROGRAMS = ("produce_load", "fetch_load", "limit", "instant_ack")
COMPILE = ("-std=c11", "-O2", "-Wall", "-Wextra")
RUN_S_MAX = 120  # every single run is a matter of seconds; longer means stuck

Numbers = dict[str, Any]
"""What one program printed: its one JSON line."""


class BenchError(Exception):
    """A measure could not be taken. The others still can."""


def compile_all() -> None:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise BenchError("no C compiler found (cc, gcc or clang); the load generator is written in C")
    BINARIES.mkdir(exist_ok=True)
    newest_source = max(source.stat().st_mtime for source in SOURCES.iterdir())
    for name in PROGRAMS:
        binary = BINARIES / name
        if binary.exists() and binary.stat().st_mtime > newest_source:
            continue
        sources = [str(SOURCES / f"{name}.c"), str(SOURCES / "common.c")]
        done = subprocess.run(
            [compiler, *COMPILE, "-o", str(binary), *sources], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise BenchError(f"{name}.c does not compile:\n{done.stderr}")


def command(program: str, *words: str, **options: object) -> list[str]:
    """`command("limit", "receive", chunk_bytes=5)` is `bin/limit receive --chunk-bytes 5`."""
    flags = (part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", str(value)))
    return [str(BINARIES / program), *words, *flags]


def run(program: str, *words: str, **options: object) -> Numbers:
    try:
        done = subprocess.run(
            command(program, *words, **options), capture_output=True, text=True, timeout=RUN_S_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        raise BenchError(f"{program} was not done after {RUN_S_MAX} s") from None
    return _numbers(program, done.returncode, done.stdout, done.stderr)


@contextmanager
def running(program: str, **options: object) -> Iterator[subprocess.Popen[str]]:
    """A program beside others. `finish` takes its result; on the way out it is ended if it still runs."""
    with subprocess.Popen(
        command(program, **options),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        try:
            yield started
        finally:
            if started.poll() is None:
                started.kill()


def finish(started: subprocess.Popen[str]) -> Numbers:
    program = Path(str(started.args[0])).name if isinstance(started.args, list) else "program"
    try:
        output, complaints = started.communicate(timeout=RUN_S_MAX)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{program} was not done after {RUN_S_MAX} s") from None
    return _numbers(program, started.returncode, output, complaints)


def _numbers(program: str, status: int, output: str, complaints: str) -> Numbers:
    if status != 0:
        raise BenchError(f"{program}: {complaints.strip() or f'status {status}'}")
    numbers: Numbers = json.loads(output)
    if numbers.get("errors"):
        raise BenchError(f"{program}: {numbers['errors']} error answers, the first with code {numbers['first_error']}")
    return numbers
