"""Without the extra, `export` and `import` say how to get it."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = """
import sys
sys.modules["pyarrow"] = None
from headrace.cli.app import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "arguments", [["export", "--topic", "a", "--out", "nowhere"], ["import", "--topic", "a", "--in", "nowhere"]]
)
def test_a_missing_extra_is_named(arguments: list[str]) -> None:
    command = [sys.executable, "-c", WITHOUT, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert ran.returncode == 1
    assert ran.stderr.splitlines() == [
        "error: this command needs pyarrow, which is not installed",
        "hint: pip install 'headrace[spark]'",
    ]
