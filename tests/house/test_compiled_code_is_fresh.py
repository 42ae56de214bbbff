"""A compiled module hides its source from Python: whoever changes the one has to make the other again."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
compiling = runpy.run_path(str(ROOT / "tools" / "compiling.py"))


@pytest.mark.parametrize("module", compiling["HOT_MODULES"])
def test_compiled_code_was_made_from_the_source_that_is_there(module: str) -> None:
    extension = compiling["extension_of"](module)
    if not extension.exists():
        pytest.skip(f"{module} is not compiled: there was no C compiler when it was installed")
    made_from = compiling["note_of"](extension).read_text().strip()
    assert made_from == compiling["fingerprint"](ROOT / "src" / module), f"{module} has changed: run `make compile`"


def test_make_knows_what_is_compiled() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (hot,) = [line for line in makefile.splitlines() if line.startswith("HOT ")]
    assert {f"src/{module}" for module in compiling["HOT_MODULES"]} <= set(hot.split())
