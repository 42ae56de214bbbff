"""Scenarios of Raft as transcripts: commands, `----`, what the nodes then do, an empty line.

`HEADRACE_REWRITE=1 pytest tests/scenarios` writes what happens now into the files; then read the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.scenarios.raft_script import Stage

TRANSCRIPTS = Path(__file__).parent / "raft"


def played_again(transcript: str, patch: pytest.MonkeyPatch) -> str:
    """The same commands, with what happens now."""
    stage = Stage(patch)
    parts = []
    for part in transcript.strip().split("\n\n"):
        if part.startswith("#"):
            parts.append(part + "\n")
            continue
        commands = part.partition("----")[0]
        parts.append(f"{commands.rstrip()}\n----\n{stage.play(commands)}")
    return "\n".join(parts)


@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_it_happens_as_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = path.read_text()
    happened = played_again(written, monkeypatch)
    if os.environ.get("HEADRACE_REWRITE"):
        path.write_text(happened)
    assert happened == path.read_text(), f"{path.name} tells another story now; HEADRACE_REWRITE=1 writes it anew"
