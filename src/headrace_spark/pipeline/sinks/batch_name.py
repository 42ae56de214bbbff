"""What a sink is given: one batch at a time, with a name that is the same when the batch comes again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame


class BatchName(NamedTuple):
    """Names a batch: one that comes again, after a failure, has the same name."""

    query_id: str
    """Spark makes it with the checkpoint: with a new checkpoint, batch 0 is another batch 0."""
    batch_id: int


if TYPE_CHECKING:
    BatchWriter = Callable[[DataFrame, BatchName], None]
