"""Whoever imports a public name finds a docstring at it: modules, classes, functions, methods and properties."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE: Final = Path(__file__).parents[2] / "src"
PACKAGES: Final = ("headrace_spark", "headrace/client", "headrace/testing")

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def without_docstring(module: ast.Module, name: str) -> Iterator[str]:
    if ast.get_docstring(module) is None:
        yield name
    yield from _in_body(module.body, name)


def _in_body(body: list[ast.stmt], owner: str) -> Iterator[str]:
    for node in body:
        if not isinstance(node, Definition) or node.name.startswith("_"):
            continue
        name = f"{owner}.{node.name}"
        if ast.get_docstring(node) is None and not _is_said_elsewhere(node):
            yield name
        if isinstance(node, ast.ClassDef):
            yield from _in_body(node.body, name)


def _is_said_elsewhere(node: Definition) -> bool:
    """A setter has the docstring of its property, an overload that of what it overloads."""
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    return any(text.endswith(".setter") or text.rpartition(".")[2] == "overload" for text in decorators)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_has_a_docstring(package: str) -> None:
    lacking = [
        name
        for path in sorted((SOURCE / package).rglob("*.py"))
        if not path.stem.startswith("_") or path.stem == "__init__"
        for name in without_docstring(ast.parse(path.read_text()), _module_name(path))
    ]
    assert lacking == []


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("", ["m"]),
        ('"""M."""\ndef f(): ...\ndef _g(): ...', ["m.f"]),
        ('"""M."""\nclass C:\n    """C."""\n    def f(self): ...\n    def _g(self): ...', ["m.C.f"]),
        ('"""M."""\nclass C:\n    @property\n    def f(self): "F."\n    @f.setter\n    def f(self, v): ...', ["m.C"]),
        ('"""M."""\nclass _C:\n    def f(self): ...\nasync def g(): ...', ["m.g"]),
        ('"""M."""\ndef f():\n    "F."\n    def inner(): ...', []),
    ],
)
def test_what_lacks_a_docstring_is_found(text: str, lacking: list[str]) -> None:
    assert list(without_docstring(ast.parse(text), "m")) == lacking
