"""The three delivery guarantees, as words on the command line."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from headrace.client.reading.offsets import IsolationLevel

READ_COMMITTED = "read-committed"
READ_UNCOMMITTED = "read-uncommitted"


class Delivery(StrEnum):
    """What may happen to a message when something breaks."""

    AT_MOST_ONCE = "at-most-once"
    """It may be lost, and is never repeated."""
    AT_LEAST_ONCE = "at-least-once"
    """It may be repeated, and is never lost."""
    EXACTLY_ONCE = "exactly-once"
    """Neither, as far as a transaction reaches."""


def delivery_option(explanation: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--delivery", type=click.Choice([word.value for word in Delivery]), callback=_parsed, help=explanation
    )


def _parsed(_ctx: click.Context, _option: click.Parameter, text: str | None) -> Delivery | None:
    return None if text is None else Delivery(text)


def isolation_option(explanation: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option("--isolation", type=click.Choice([READ_UNCOMMITTED, READ_COMMITTED]), help=explanation)


def isolation_level(text: str | None) -> IsolationLevel:
    """Kafka's default, for whoever does not choose, is to see everything at once."""
    from headrace.client.reading.offsets import IsolationLevel

    return IsolationLevel.READ_COMMITTED if text == READ_COMMITTED else IsolationLevel.READ_UNCOMMITTED
