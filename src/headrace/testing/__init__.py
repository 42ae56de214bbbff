"""For projects that test against Kafka: an in-process broker and pytest fixtures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.testing.broker import Broker

__all__ = ["Broker"]


def __getattr__(name: str) -> Any:
    """The broker is imported when asked for: pytest loads this package in every project that has it installed."""
    if name == "Broker":
        from headrace.testing.broker import Broker  # noqa: PLC0415

        return Broker
    raise AttributeError(name)
