"""Why a query failed: one sentence out of all that Spark says, and whether another try may help."""

from __future__ import annotations

import re
import traceback
from pathlib import PurePath
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException

from headrace.client.errors import ClientError
from headrace.model.errors import Refusal
from headrace_spark.pipeline.file.errors import PipelineError
from headrace_spark.pipeline.spark_errors import said_by
from headrace_spark.pipeline.tables.expectations import failure_in

SENTENCE_MAX: Final = 1_000  # characters; an error's text may hold all that it was about

_TRACEBACK = "Traceback (most recent call last):"
_PYTHON_ERROR = re.compile(r"^(?P<type>[A-Za-z_][\w.]*?)(?:: (?P<text>.*))?$")
_QUERY_FAILED = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ", re.DOTALL)
_TASK_FAILED = re.compile(r"Job aborted due to stage failure: .*?\): (?P<error>[\w.$]+): (?P<text>.*)", re.DOTALL)
_OF_THE_BRIDGE = re.compile(r"^An error occurred while calling [^\n]*\n: [\w.$]+(?:: )?")
_FRAME = re.compile(r'^  File "(?P<path>[^"]+)", line (?P<line>\d+), in ', re.MULTILINE)
_NOBODYS_CODE = {"pyspark", "pyspark.zip", "headrace", "headrace_spark", "site-packages", "dist-packages"}
"""Directories of installed code, where the author of a pipeline cannot change anything."""
_REST = re.compile(r"\s*(?:SQLSTATE: \w+|\n=== |\n\s*at |\n\nDriver stacktrace|\nJVM stacktrace).*", re.DOTALL)
_CONDITION = re.compile(r"^\s*\[[A-Z0-9_.]+\]\s*")

_SPEAKS_FOR_ITSELF = {"ClientError", "Refusal", "DataLoss", "PipelineError", "ValueError", "RuntimeError", "OSError"}
"""Their type adds nothing to their text, as all errors of this house; of others it is part of the message."""

_SAYS_NOT_WHY = {"Task not serializable"}
"""Spark leaves it to the Java error underneath to tell."""


class SparkGone(Exception):
    """The JVM has ended. A new one cannot be had in this process."""

    def __init__(self) -> None:
        super().__init__("Spark's Java process has ended unexpectedly; perhaps the machine was out of memory")


class PipelineFailure(Exception):
    """A query failed. The text is the cause alone."""

    def __init__(self, query: str | None, error: BaseException, batch_id: int | None = None) -> None:
        super().__init__(cause_of(error))
        self.query = query
        """The sink's name; None if none of the queries could be started."""
        self.batch_id = batch_id
        """In which it failed; None if that was before one began."""
        self.is_permanent = _is_permanent(error)
        """Another try would end the same way."""
        self.full_text = "" if _says_everything(error) else "".join(traceback.format_exception(error))
        """All that was said, with stacks: pages of it. Empty if the cause says everything."""
        self.details: str | None = None
        """The file in which all of it is."""


def cause_of(error: BaseException) -> str:
    """One line."""
    cause = _cause_of(error)
    return cause if len(cause) <= SENTENCE_MAX else f"{cause[:SENTENCE_MAX]} …"


def _cause_of(error: BaseException) -> str:
    failed_record = failure_in(error)
    if failed_record is not None:
        return failed_record
    match error:
        case AnalysisException() | ParseException():
            return said_by(error)
        case PySparkException():
            said = _innermost(str(error))
            return f"{said}: {_root_of(error)}" if said in _SAYS_NOT_WHY else said
        case Py4JJavaError():  # one that pyspark has no class for
            return _innermost(_OF_THE_BRIDGE.sub("", str(error)))
        case PipelineError() | ClientError() | Refusal() | SparkGone():
            return str(error)
        case _:
            return _with_type(type(error).__name__, str(error))


def _is_permanent(error: BaseException) -> bool:
    return (
        isinstance(error, AnalysisException | ParseException | PipelineError | SparkGone)
        or failure_in(error) is not None
    )


def _says_everything(error: BaseException) -> bool:
    return isinstance(error, PipelineError | SparkGone) or failure_in(error) is not None


def _root_of(error: BaseException) -> str:
    """The Java error at the bottom, which pyspark keeps but does not print."""
    while (cause := getattr(error, "_cause", None)) is not None:
        error = cause
    return str(error).partition("\n")[0]


def _innermost(text: str) -> str:
    """Spark quotes the errors of Python with their stacks; the last stack is the one nearest to the cause."""
    if _TRACEBACK in text:
        stack = text.rpartition(_TRACEBACK)[2]
        found = _python_error(stack)
        if found is not None:
            return f"{found}{_place_in(stack)}"
    text = _QUERY_FAILED.sub("", text)
    task = _TASK_FAILED.search(text)
    if task is not None:
        text = task["text"]
    text = _REST.sub("", _CONDITION.sub("", text), count=1)
    return " ".join(text.split()).rstrip(".") or "Spark does not say why"


def _place_in(stack: str) -> str:
    """Where the error was raised, if it was in code that is not installed: the pipeline's own."""
    frames = list(_FRAME.finditer(stack))
    if not frames or not _NOBODYS_CODE.isdisjoint(PurePath(frames[-1]["path"]).parts):
        return ""
    return f" ({PurePath(frames[-1]['path']).name}, line {frames[-1]['line']})"


def _python_error(stack: str) -> str | None:
    lines = stack.splitlines()
    for number, line in enumerate(lines):
        if line.strip() and not line.startswith((" ", "\t")):
            found = _PYTHON_ERROR.match(line)
            if found is None:
                return None
            text = "\n".join([found["text"] or "", *lines[number + 1 :]])
            text = " ".join(_REST.sub("", text, count=1).split())
            return _with_type(found["type"].rpartition(".")[2], text)
    return None


def _with_type(kind: str, text: str) -> str:
    if not text:
        return kind
    return text if kind in _SPEAKS_FOR_ITSELF else f"{kind}: {text}"
