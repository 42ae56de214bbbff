from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from headrace.cli.messages import line_input
from headrace.cli.messages.line_input import Lines, LineSplitter, read_lines
from headrace.cli.terminal.complaints import Complaint

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\nbb\n\nc", [b"a", b"bb", b"", b"c"]),
        (b"\n\n", [b"", b""]),
        (b"a\r\nb", [b"a\r", b"b"]),
    ],
)
def test_lines_do_not_depend_on_chunks(text: bytes, expected: list[bytes], size: int) -> None:
    splitter = LineSplitter()
    lines: list[bytes] = []
    for start in range(0, len(text), size):
        lines += splitter.feed(text[start : start + size])
    assert lines + splitter.finish() == expected


async def collected(*paths: Path) -> list[tuple[str, int, bytes]]:
    found = []
    async for lines in read_lines(paths):
        found += [(lines.source, number, line) for number, line in enumerate(lines.lines, lines.first_number)]
    return found


async def test_files_are_read_one_after_the_other_and_numbered_each(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"a\nb")
    second.write_bytes(b"c\n")
    assert await collected(first, second) == [
        (str(first), 1, b"a"),
        (str(first), 2, b"b"),
        (str(second), 1, b"c"),
    ]


async def test_numbers_go_on_over_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_input, "CHUNK_BYTES", 5)
    path = tmp_path / "lines"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(1, 30)))
    assert [(number, line) for _, number, line in await collected(path)] == [
        (number, b"line %d" % number) for number in range(1, 30)
    ]


async def test_a_pipe_does_not_hold_up_the_loop() -> None:
    reading, writing = os.pipe()
    lines: list[Lines] = []

    async def read() -> None:
        async for found in line_input._lines_of(reading, "pipe"):
            lines.append(found)  # noqa: PERF401 - each is looked at when it comes

    task = asyncio.ensure_future(read())
    await asyncio.sleep(0.01)  # the pipe is empty, and we still run
    os.write(writing, b"one\ntw")
    while not lines:
        await asyncio.sleep(0.001)
    assert lines[0].lines == [b"one"]
    os.write(writing, b"o")
    os.close(writing)
    await task
    os.close(reading)
    assert [line for found in lines for line in found.lines] == [b"one", b"two"]


async def test_a_file_without_line_ends_is_not_read_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_input, "CHUNK_BYTES", 10)
    monkeypatch.setattr(line_input, "LINE_BYTES_MAX", 50)
    path = tmp_path / "endless"
    path.write_bytes(b"ok\n" + b"x" * 1000)
    with pytest.raises(Complaint, match="line 2: longer than 50 bytes"):
        await collected(path)
