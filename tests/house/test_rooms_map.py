"""What is written from the code is as the code has it: the map of rooms, the table of rights; and the shape is kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("tool", ["tools.write_rooms_map", "tools.write_rights_table", "tools.shape"])
def test_the_house_is_as_it_says(tool: str) -> None:
    command = [sys.executable, "-m", tool, "--check"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
