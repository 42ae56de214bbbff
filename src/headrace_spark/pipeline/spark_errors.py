"""Spark's errors in one sentence."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.logger import PySparkLogger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.errors import PySparkException

_CONDITION = re.compile(r"^\s*\[[A-Z0-9_.]+\]\s*")
_REST = re.compile(r"\s*(?:SQLSTATE: \w+|;\s*\n|\n\n|\(line \d+, pos \d+\)|; line \d+ pos \d+).*", re.DOTALL)
_NEXT_SENTENCE = re.compile(r"\. [A-Z].*")  # advice for those who write programs; the file's author gets another
_POSITION = re.compile(r"line (\d+),? pos(?:ition)? (\d+)")
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


class Position(NamedTuple):
    """Where in a statement an error is: line and column."""

    line: int
    """Of the SQL, counted from 1."""
    column: int
    """Counted from 1."""


def said_by(error: PySparkException, *, in_full: bool = False) -> str:
    """What Spark says first, or in full, without its codes, its plan and its stack."""
    said = _REST.sub("", _CONDITION.sub("", str(error)), count=1)
    said = " ".join(said.split())
    if not in_full:
        said = _NEXT_SENTENCE.sub("", said, count=1)
    said = said.rstrip(".")
    return said[:1].lower() + said[1:]


def java_words(error: Exception) -> str:
    """What Java said, of an error that came over the bridge as it is; else the first line of what there is."""
    said = str(error.java_exception.getMessage()) if isinstance(error, Py4JJavaError) else str(error)
    lines = _CONDITION.sub("", said).strip().splitlines()
    return _REST.sub("", lines[0], count=1).rstrip(".") if lines else type(error).__name__


@contextmanager
def quiet() -> Iterator[None]:
    """PySpark prints the errors of a query, with all of the JVM's stack, before it raises them. Here they are told."""
    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    were_disabled = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, was_disabled in zip(loggers, were_disabled, strict=True):
            logger.disabled = was_disabled


def position_in_sql(error: PySparkException) -> Position | None:
    """Where in the statement the error is, if Spark says so."""
    found = _POSITION.search(str(error))
    return Position(int(found[1]), int(found[2]) + 1) if found else None
