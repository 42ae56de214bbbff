"""The walk over records as Python and as compiled code, whichever of them the node uses."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import headrace.wire

if TYPE_CHECKING:
    from types import ModuleType

NAME = "headrace.wire.walk"
FOLDER = Path(headrace.wire.__file__).parent


class Form(NamedTuple):
    module: Any
    """None if it is not there."""
    needed: pytest.MarkDecorator
    """For tests that make no sense without it."""


def _loaded(loader: SourceFileLoader | ExtensionFileLoader) -> ModuleType:
    spec = spec_from_loader(NAME, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def _interpreted() -> ModuleType:
    return _loaded(SourceFileLoader(NAME, str(FOLDER / "walk.py")))


def _compiled() -> ModuleType | None:
    for suffix in EXTENSION_SUFFIXES:
        path = FOLDER / f"walk{suffix}"
        if path.exists():
            return _loaded(ExtensionFileLoader(NAME, str(path)))
    return None


def _form(module: ModuleType | None) -> Form:
    mark = pytest.mark.skipif(module is None, reason="not compiled: no C compiler was found (`make compile`)")
    return Form(module, mark)


interpreted = _form(_interpreted())
compiled = _form(_compiled())

FORMS = [
    pytest.param(interpreted.module, id="interpreted"),
    pytest.param(compiled.module, id="compiled", marks=compiled.needed),
]
