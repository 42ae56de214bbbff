"""The end of a node that can no longer be trusted with data: told once, to whoever runs it."""

from __future__ import annotations

import asyncio
import logging

from headrace.model.errors import DiskFailure

log = logging.getLogger(__name__)


class DisplacedNode(Exception):
    """The cluster knows another life of this node: what this one would do counts for nothing."""


class Failure:
    """`failed` ends with the first error that must not be worked around."""

    def __init__(self) -> None:
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    @property
    def error(self) -> BaseException | None:
        return self.failed.result() if self.failed.done() else None

    def fail(self, error: BaseException) -> None:
        """Something broke that must not be worked around. Whoever runs the node ends it."""
        if not self.failed.done():
            log.critical("the node must stop: %s", error)
            self.failed.set_result(error)

    def task_failed(self, name: str, error: BaseException) -> None:
        """For task scopes of the node: no task of it ends by itself."""
        if not isinstance(error, DiskFailure | DisplacedNode):  # their words are enough, and `fail` says them
            log.error("the task %r failed", name, exc_info=error)
        self.fail(error)
