"""What other projects use says what it is for: every public class, function and method has a docstring."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).parents[2] / "src"
PUBLIC = ("headrace/testing",)
MODULES = sorted(path.relative_to(SOURCE).as_posix() for package in PUBLIC for path in (SOURCE / package).rglob("*.py"))
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def public_names(body: list[ast.stmt], within: str = "") -> Iterator[tuple[str, Definition]]:
    for node in body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield within + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public_names(node.body, f"{node.name}.")


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_a_docstring(module: str) -> None:
    tree = ast.parse((SOURCE / module).read_text())
    assert ast.get_docstring(tree)
    assert not [name for name, node in public_names(tree.body) if ast.get_docstring(node) is None]
