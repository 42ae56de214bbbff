"""A copy of the project in which bugs are planted, one after the other, while the project itself stays as it is."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tools.planted.catalogue import LIMIT_S, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tools.planted.catalogue import Bug

# Compiled modules would run in place of the sources beside them, in which the bugs are planted.
LEFT_OUT: Final = ("*.so", "*.pyc", "__pycache__", "out", "bin", "dist", "build", "headrace-data", "node_modules")
PYTEST: Final = (
    sys.executable,
    "-m",
    "pytest",
    "-p",
    "no:cacheprovider",
    "--hypothesis-profile=ci",
    "-rfE",
    "--tb=short",
)
"""The profile gives the same examples each time, and remembers none that failed with another bug."""
FAILED_EXIT: Final = 1
_VERDICT: Final = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    bug: Bug
    caught_by: str | None
    """The test that fails; None if none does, or if it cannot be told."""
    seconds: float
    trouble: str = ""
    """If nobody caught it: what happened instead."""


@dataclass(frozen=True)
class _Run:
    exit_code: int | None
    """None if it did not end in time."""
    output: str
    seconds: float


class Workshop:
    def __init__(self, place: Path) -> None:
        self.place = place
        self._planted = 0
        place.mkdir(parents=True)
        for entry in sorted(ROOT.iterdir()):
            if entry.name.startswith(".") or entry.name in LEFT_OUT:
                continue
            if entry.is_dir():
                shutil.copytree(entry, place / entry.name, ignore=shutil.ignore_patterns(*LEFT_OUT))
            else:
                shutil.copy2(entry, place / entry.name)

    def try_bug(self, bug: Bug) -> Outcome:
        with self._with(bug):
            run = self._pytest(["-x", *bug.tests], bug.limit_s)
        verdict = _VERDICT.search(run.output)
        if run.exit_code == FAILED_EXIT and verdict:
            return Outcome(bug, verdict[1], run.seconds)
        if run.exit_code == 0:
            return Outcome(bug, None, run.seconds, "every test passes")
        if run.exit_code is None:
            return Outcome(bug, None, run.seconds, f"its tests do not end within {bug.limit_s:.0f} s")
        return Outcome(bug, None, run.seconds, f"pytest ends with {run.exit_code}:\n{run.output[-2000:]}")

    def passes_without(self, bugs: Sequence[Bug], jobs: int) -> str:
        """Run all tests that are to catch something, with nothing planted. Empty if they pass, else what failed."""
        tests = sorted({test for bug in bugs for test in bug.tests})
        wanted = [test for test in tests if test.split("::")[0] == test or test.split("::")[0] not in tests]
        spread = ["-n", str(jobs), "--dist", "loadgroup"] if jobs > 1 else []
        run = self._pytest([*spread, *wanted], sum(bug.limit_s for bug in bugs))
        return "" if run.exit_code == 0 else run.output[-4000:]

    def cases_in(self, path: str, *options: str) -> set[str]:
        """The parameters of the tests that pytest finds in a file."""
        run = self._pytest(["--collect-only", *options, path], LIMIT_S)
        return {line.partition("[")[2] for line in run.output.splitlines() if line.startswith(path) and "[" in line}

    @contextmanager
    def _with(self, bug: Bug) -> Iterator[None]:
        path = self.place / bug.file
        honest = path.read_text()
        self._write(path, bug.planted_in(honest))
        try:
            yield
        finally:
            self._write(path, honest)

    def _write(self, path: Path, text: str) -> None:
        """Each time with another time in the file's entry: by that, and by the size, Python tells whether it has to
        compile it anew, and a bug may leave the size as it was."""
        path.write_text(text)
        self._planted += 1
        os.utime(path, (self._planted, self._planted))

    def _pytest(self, arguments: Sequence[str], limit_s: float) -> _Run:
        """In a session of its own, so that all that the tests have started can be ended with them."""
        began = time.monotonic()
        process = subprocess.Popen(
            [*PYTEST, *arguments],
            cwd=self.place,
            env={**os.environ, "PYTHONPATH": str(self.place / "src")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        exit_code: int | None
        try:
            output, _ = process.communicate(timeout=limit_s)
            exit_code = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            exit_code = None
        return _Run(exit_code, output, time.monotonic() - began)
