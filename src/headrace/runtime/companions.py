"""A process of its own for work that would hold up the loop: it is given one line and answers with lines."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class CompanionEnded(Exception):
    """The process ended otherwise than well: it crashed, or somebody ended it."""

    def __init__(self, module: str, exit_code: int) -> None:
        how = f"was ended by signal {-exit_code}" if exit_code < 0 else f"ended with code {exit_code}"
        super().__init__(f"the process of {module} {how}; what it wrote to standard error says more")


async def lines_of(module: str, *arguments: str, line: bytes) -> AsyncGenerator[bytes, None]:
    """What the module's process answers to `line`. It is ended when nobody listens any more."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, stdin=PIPE, stdout=PIPE, start_new_session=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with suppress(BrokenPipeError, ConnectionResetError):  # it has ended already, and its code says how
            process.stdin.write(line + b"\n")
            await process.stdin.drain()
        async for answer in process.stdout:
            yield answer
        if await process.wait():
            raise CompanionEnded(module, process.returncode or 0)
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
