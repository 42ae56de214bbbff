"""Functions that run in processes of their own: whoever is measured shares no interpreter with whoever disturbs.

`Apart` starts one and speaks with it line by line, in JSON. The function is given the `Line` to whoever started it.
When that one goes, so does the process: none is left behind.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[3]
PATIENCE_S = 60.0  # nothing here is measured; this only ends a test that hangs


class Line:
    """The child's end."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.is_over = threading.Event()
        self.asked: queue.SimpleQueue[str] = queue.SimpleQueue()
        """Words other than those two."""
        self._speaking = threading.Lock()
        self._has_struck = False
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for word in map(str.strip, sys.stdin):
            match word:
                case "begin":
                    self.has_begun.set()
                case "end":
                    self.is_over.set()
                case _:
                    self.asked.put(word)
        os._exit(1)  # nobody is left to tell

    def say(self, kind: str, content: object = None) -> None:
        with self._speaking:
            print(json.dumps([kind, content]), flush=True)

    def wait_begin(self) -> None:
        """Say that all is prepared, and wait for the word."""
        self.say("ready")
        self.has_begun.wait()

    def struck(self) -> None:
        """Say, the first time, that all this came for was done at least once."""
        with self._speaking:
            is_first, self._has_struck = not self._has_struck, True
        if is_first:
            self.say("struck")


class Apart:
    """The parent's end. Use it with `with`."""

    def __init__(self, function: Callable[..., object], *, nice: int = 0, **arguments: object) -> None:
        self.name = function.__name__
        place = f"{function.__module__}:{function.__name__}"
        self._said: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.attacks.apart", place, json.dumps(arguments), str(nice)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Apart:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # what it did not read any more
                pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            kind, content = json.loads(line)
            self._said.put((kind, content))
        self._said.put(("gone", None))

    def tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def hear(self, kind: str, patience_s: float = PATIENCE_S) -> Any:
        """What it says next, which must be of this kind."""
        try:
            heard, content = self._said.get(timeout=patience_s)
        except queue.Empty:
            raise AssertionError(f"{self.name} has not said '{kind}' for {patience_s:g} s") from None
        assert heard == kind, f"{self.name} said '{heard}' instead of '{kind}'"
        return content


def main() -> None:
    place, arguments, nice = sys.argv[1:]
    os.nice(int(nice))
    module, _, name = place.partition(":")
    line = Line()
    line.say("result", getattr(import_module(module), name)(line, **json.loads(arguments)))
    line.is_over.wait()


if __name__ == "__main__":
    main()
