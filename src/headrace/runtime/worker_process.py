"""A process of its own for work that would hold up the loop: it is given lines, and answers each with lines."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable


class WorkerProcessEnded(Exception):
    """The process ended otherwise than well: it crashed, or somebody ended it."""

    def __init__(self, module: str, exit_code: int) -> None:
        how = f"was ended by signal {-exit_code}" if exit_code < 0 else f"ended with code {exit_code}"
        super().__init__(f"the process of {module} {how}; what it wrote to standard error says more")


class WorkerProcess:
    """Runs from the first question until it is let go: to start Python takes longer than many an answer."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._module = module
        self._arguments = arguments
        self._process: Process | None = None

    async def ask(self, line: bytes, is_last: Callable[[bytes], bool]) -> AsyncGenerator[bytes, None]:
        """What it answers, up to a line that is the last. If nobody listens so far, it is let go."""
        process = await self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        is_answered = False
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # it has ended already, and its code says how
                process.stdin.write(line + b"\n")
                await process.stdin.drain()
            async for answer in process.stdout:
                is_answered = is_last(answer)
                yield answer
                if is_answered:
                    return
            raise WorkerProcessEnded(self._module, await process.wait())
        finally:
            if not is_answered:
                await self.let_go()

    async def _running(self) -> Process:
        if self._process is not None and self._process.returncode is not None:
            await self.let_go()  # it died between two questions
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", self._module, *self._arguments, stdin=PIPE, stdout=PIPE, start_new_session=True
            )
        return self._process

    async def let_go(self) -> None:
        """End it. The next question starts another."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
