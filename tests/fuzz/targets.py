"""All that is fuzzed. A new decoder is a module beside the others, and its name here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.fuzz.harness import Target

NAMES: Final = ("frames", "messages", "batches", "http", "peers", "answers", "patterns", "logins")


def target_named(name: str) -> Target:
    """Loaded when asked for: a fuzzer watches only what its own target needs."""
    found: Target = import_module(f"tests.fuzz.{name}").TARGET
    return found
