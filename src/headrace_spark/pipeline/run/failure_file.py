"""A file with everything that Spark said when a run failed: pages of stack traces, which no terminal should show."""

from __future__ import annotations

import logging
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace_spark.pipeline.run.failures import PipelineFailure

log = logging.getLogger(__name__)

FILE_BYTES_MAX: Final = 4 * 1024 * 1024  # a run may fail and start again for months


class FailureFile:
    """One for each run, made when there is something to put into it."""

    def __init__(self, pipeline_name: str) -> None:
        self._name = pipeline_name
        self._path: Path | None = None

    def keep(self, failure: PipelineFailure) -> str | None:
        """Where it is now; None if there is no more to it than the failure says, or no place for it."""
        if not failure.full_text:
            return None
        try:
            return str(self._write(failure))
        except OSError as error:
            log.warning("the failure's details could not be written to a file: %s", error)
            return None

    def _write(self, failure: PipelineFailure) -> Path:
        if self._path is None:
            descriptor, path = tempfile.mkstemp(prefix=f"headrace-{self._name}-", suffix=".log")
            os.close(descriptor)
            self._path = Path(path)
        text = f"{datetime.now(UTC).isoformat(timespec='seconds')} {failure}\n{failure.full_text}\n"
        content = text.encode(errors="replace")[-FILE_BYTES_MAX:]
        # The newest are worth most. Those before make room together, so that a file is not written anew each time.
        has_room = self._path.exists() and self._path.stat().st_size + len(content) <= FILE_BYTES_MAX
        with self._path.open("ab" if has_room else "wb") as file:
            file.write(content)
        return self._path
