"""What is told of a failure, and whether a pipeline is started again after it."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException

from headrace.client.errors import ClusterUnreachable
from headrace_spark.pipeline.file.spec import RestartPolicy
from headrace_spark.pipeline.run.failure_file import FILE_BYTES_MAX, FailureFile
from headrace_spark.pipeline.run.failures import PipelineFailure, SparkGone, cause_of
from headrace_spark.pipeline.run.restarts import Restarts

if TYPE_CHECKING:
    from pathlib import Path

QUERY_FAILED = "[STREAM_FAILED] Query [id = 1f, runId = 2e] terminated with exception: "
TASK_FAILED = (
    "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task 0.0 in stage "
    "3.0 (TID 3) (127.0.0.1 executor driver): "
)
PYTHON_STACK = """Traceback (most recent call last):
  File "/x/pyspark/worker.py", line 12, in main
    run()
    ^^^^^
"""
PLAN = """
=== Streaming Query ===
Current State: ACTIVE
Logical Plan:
~Filter CASE WHEN (verdict#13 = fail) THEN cast(raise_error(USER_RAISED_EXCEPTION, map(errorMessage, \
concat(pipeline stopped: the record of , format_string(%s-%d at offset %d, _topic#3), : , reason#14))) ELSE true END
"""
RECORD_FAILED = "pipeline stopped: orders-0@7: expectation 'x' is broken"
IN_THE_PIPELINE = """Traceback (most recent call last):
  File "/x/pyspark/worker.py", line 12, in main
    run()
  File "/jobs/shout.py", line 7, in loud
    return int(text)
           ^^^^^^^^^
"""
JAVA_STACK = "\n\tat org.apache.spark.Whatever.run(Whatever.scala:1)\n\nDriver stacktrace:\n\tat more"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (f"{QUERY_FAILED}{PYTHON_STACK}ValueError: no topic 'orders'\n SQLSTATE: 39000", "no topic 'orders'"),
        (f"{PYTHON_STACK}a.b.Refusal: first\nand second{JAVA_STACK}", "first and second"),
        (f"{PYTHON_STACK}x.Outer: {PYTHON_STACK}ZeroDivisionError: by zero{JAVA_STACK}", "ZeroDivisionError: by zero"),
        (f"{PYTHON_STACK}KeyboardInterrupt\n", "KeyboardInterrupt"),
        (f"{IN_THE_PIPELINE}KeyError: 'x'{JAVA_STACK}", "KeyError: 'x' (shout.py, line 7)"),
        (f"{QUERY_FAILED}{'x' * 5_000}", f"{'x' * 1_000} …"),
        (
            f"{TASK_FAILED}a.b.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 2{JAVA_STACK}",
            "Division by zero",
        ),
        (f"{QUERY_FAILED}the disk is full{JAVA_STACK}", "the disk is full"),
        (
            f"{QUERY_FAILED}Python worker failed to connect back. SQLSTATE: X{PLAN}",
            "Python worker failed to connect back",
        ),
        (
            f"{TASK_FAILED}a.b.SparkRuntimeException: [USER_RAISED_EXCEPTION] {RECORD_FAILED} SQLSTATE: P1{JAVA_STACK}",
            RECORD_FAILED,
        ),
    ],
)
def test_the_cause_is_dug_out_of_what_spark_says(text: str, cause: str) -> None:
    assert cause_of(PySparkException(text)) == cause


def test_what_says_not_why_is_told_with_the_error_at_its_bottom() -> None:
    bottom = PySparkException("java.io.NotSerializableException: a.b.Socket\nSerialization stack:\n\t- object")
    middle, top = PySparkException("while writing"), PySparkException(f"Task not serializable{JAVA_STACK}")
    # As pyspark chains errors of the JVM; those themselves can be made only while one runs.
    top._cause, middle._cause = middle, bottom  # type: ignore[attr-defined]
    assert cause_of(top) == "Task not serializable: java.io.NotSerializableException: a.b.Socket"


class ErrorOverTheBridge(Py4JJavaError):
    """As py4j raises it, but for the JVM that it asks for its text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            f"{TASK_FAILED}org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).{JAVA_STACK}",
            "Python worker exited unexpectedly (crashed)",
        ),
        (f"[DATA_SOURCE_NOT_FOUND] Failed to find x. SQLSTATE: 42K02{JAVA_STACK}", "Failed to find x"),
    ],
)
def test_an_error_that_comes_over_the_bridge_as_it_is_is_one_sentence_too(text: str, cause: str) -> None:
    said = f"An error occurred while calling o549.save.\n: org.apache.spark.SparkException: {text}"
    assert cause_of(ErrorOverTheBridge(said)) == cause


def failure(text: str) -> PipelineFailure:
    return PipelineFailure("topic-a", PySparkException(text))


def test_all_that_spark_said_is_kept_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = FailureFile("shout")
    first = kept.keep(failure(f"the disk is full{JAVA_STACK}"))
    assert first == kept.keep(failure("it still is"))
    (file,) = tmp_path.iterdir()
    text = file.read_text()
    assert (str(file), file.name.startswith("headrace-shout-")) == (first, True)
    assert text.index("Driver stacktrace") < text.index("it still is")


def test_the_file_keeps_its_limit_and_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = FailureFile("shout")
    for number in range(6):
        kept.keep(failure(f"failure {number} {'x' * (FILE_BYTES_MAX // 3)}"))
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size <= FILE_BYTES_MAX
    assert "failure 5" in file.read_text()


def test_what_is_said_in_a_sentence_needs_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for error in (SparkGone(), PySparkException(f"[USER_RAISED_EXCEPTION] {RECORD_FAILED}{JAVA_STACK}")):
        assert FailureFile("shout").keep(PipelineFailure(None, error)) is None
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_does_not_hide_the_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert FailureFile("shout").keep(failure("the disk is full")) is None


@pytest.mark.parametrize(
    ("error", "is_permanent"),
    [
        (ClusterUnreachable("no node answers"), False),
        (PySparkException("the disk is full"), False),
        (PySparkException(f"{QUERY_FAILED}Python worker failed to connect back. SQLSTATE: X{PLAN}"), False),
        (AnalysisException("[UNRESOLVED_COLUMN] no column x"), True),
        (PySparkException("[USER_RAISED_EXCEPTION] pipeline stopped: orders-0@7: undecodable"), True),
        (SparkGone(), True),
    ],
)
def test_what_would_end_the_same_way_is_not_tried_again(error: Exception, is_permanent: bool) -> None:
    assert PipelineFailure("topic-a", error).is_permanent == is_permanent


def test_pauses_double_up_to_their_limit_and_attempts_end() -> None:
    restarts = Restarts(RestartPolicy(4, 1.0, 5.0))
    assert [restarts.pause_s(["a"]) for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, None]
    assert restarts.total == 4


def test_a_query_that_got_through_begins_its_count_anew() -> None:
    restarts = Restarts(RestartPolicy(2, 1.0, 60.0))
    assert [restarts.pause_s(["a"]) for _ in range(2)] == [1.0, 2.0]
    restarts.got_through("a")
    assert [restarts.pause_s(["a"]) for _ in range(3)] == [1.0, 2.0, None]
    assert restarts.total == 4


def test_what_others_get_through_does_not_help_the_query_that_fails() -> None:
    restarts = Restarts(RestartPolicy(2, 1.0, 60.0))
    pauses = []
    for failed in (["a", "b"], ["b"], ["a", "b"]):
        restarts.got_through("c")
        pauses.append(restarts.pause_s(failed))
    assert pauses == [1.0, 2.0, None], "b has failed three times in a row"


def test_a_start_that_succeeds_ends_the_count_of_those_that_did_not() -> None:
    restarts = Restarts(RestartPolicy(1, 1.0, 60.0))
    assert restarts.pause_s([None]) == 1.0
    restarts.got_through("a")
    assert [restarts.pause_s([None]) for _ in range(2)] == [1.0, None]


def test_a_policy_without_attempts_never_restarts() -> None:
    assert Restarts(RestartPolicy(0, 1.0, 60.0)).pause_s(["a"]) is None
