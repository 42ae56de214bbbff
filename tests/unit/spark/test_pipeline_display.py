"""What a run looks like, for programs and for people."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from headrace.cli.pipeline.text import run_row, status_text
from headrace_spark.pipeline.file.loader import load
from headrace_spark.pipeline.run.display import JsonLines, LiveTable
from headrace_spark.pipeline.run.failures import PipelineFailure
from headrace_spark.pipeline.run.query_progress import BatchProgress, lag_of, progress_of, topics_made_anew
from headrace_spark.pipeline.status.query_status import QueryStatus
from headrace_spark.pipeline.status.run_status import RunState, new_run

if TYPE_CHECKING:
    from pathlib import Path

    from headrace_spark.pipeline.file.spec import Pipeline

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
QUERY = QueryStatus("topic-totals", 3, 12_000, 5321.4, 250, 17, 42, 4_200_000)
RUN = replace(new_run("orders", "r1", "local[*]", NOON), state=RunState.RUNNING, queries=(QUERY,))


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    file = tmp_path / "orders.toml"
    file.write_text('name = "orders"\n[[source]]\nname = "o"\ntopic = "o"\nformat = "text"\n[[sink]]\nconsole = true\n')
    return load(file)


def test_every_line_of_json_says_what_it_is_about(pipeline: Pipeline) -> None:
    lines: list[str] = []
    with JsonLines(pipeline, lines.append) as display:
        display.tell(RUN)
        display.tell(replace(RUN, queries=()))  # no news
        display.batch(BatchProgress("topic-totals", 3, "2026-01-01T12:00:00Z", 12, 5.5, 250, 0, 0, 0))
        display.rows("console", 4, [{"a": "ä"}], 7)
        display.restarting(PipelineFailure("topic-totals", PySparkException("the disk is full")), 2.0)
    told = [json.loads(line) for line in lines]
    assert [line["event"] for line in told] == ["state", "batch", "rows", "restart"]
    assert {line["pipeline"] for line in told} == {"orders"}
    assert (told[1]["query"], told[1]["batch_id"], told[1]["rows"]) == ("topic-totals", 3, 12)
    assert (told[2]["query"], told[2]["batch_id"], told[2]["rows"], told[2]["more"]) == ("console", 4, [{"a": "ä"}], 7)
    assert (told[3]["error"], told[3]["pause_s"]) == ("the disk is full", 2.0)


def test_the_table_is_talk_and_the_rows_are_the_answer(pipeline: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    answers: list[str] = []
    with LiveTable(pipeline, answers.append) as display:
        display.tell(RUN)
        display.rows("console", 4, [{"a": 1}], 7)
    (answer,) = answers
    assert answer.splitlines() == ["orders, console, batch 4:", '  {"a": 1}', "  … and 7 more"]
    shown = capsys.readouterr()
    assert shown.out == ""
    for text in ("orders: running", "topic-totals", "12,000", "5,321", "17", "0.2 s", "4.2 MB"):
        assert text in shown.err


def test_a_run_that_is_silent_is_not_shown_as_running() -> None:
    later = NOON + timedelta(minutes=3)
    assert "State:     running, no sign of life for 3 min" in status_text(RUN, later)
    assert run_row(RUN, later)[1] == "running, no sign of life for 3 min"
    assert run_row(RUN, NOON)[1] == "running"
    ended = replace(RUN, state=RunState.FAILED, error="the disk is full")
    assert "Error:" in status_text(ended, later)
    assert "no sign of life" not in status_text(ended, later)


def test_a_query_that_fails_is_told_with_its_error_and_what_is_not_known_is_not_a_number() -> None:
    failing = QueryStatus("files", 6, lag=0).failed("the disk is full", NOON, 7)
    run = replace(RUN, state=RunState.DEGRADED, queries=(QUERY, failing), restarts=2)
    run = replace(run, error="the disk is full", error_at=NOON, error_in="files")
    text = status_text(run, NOON)
    assert "State:      degraded" in text
    assert "Last error: 2026-01-01T12:00:00.000Z in files: the disk is full" in text
    assert "files failed at 2026-01-01T12:00:00.000Z in batch 7: the disk is full" in text
    assert run_row(run, NOON)[4] == "unknown", "the lag of the query that is well is not the pipeline's"
    assert not run.is_well(NOON)
    recovered = replace(run, state=RunState.RUNNING, queries=(QUERY, replace(failing, is_failing=False, lag=4)))
    assert recovered.is_well(NOON)
    assert "Last error: 2026-01-01T12:00:00.000Z in files: the disk is full" in status_text(recovered, NOON)
    assert "files failed" not in status_text(recovered, NOON)
    assert run_row(recovered, NOON)[4] == 17


def test_late_rows_and_topics_made_anew_are_told() -> None:
    query = replace(QUERY, late_rows=1234, topics_made_anew=("orders",))
    text = status_text(replace(RUN, queries=(query,)), NOON)
    assert "1234" in text
    assert "topic-totals: topic 'orders' was deleted and made anew, and is read from its beginning" in text


def test_an_error_that_is_kept_has_an_end() -> None:
    kept = QueryStatus("files").failed("x" * 100_000, NOON, None).error
    assert kept is not None
    assert (len(kept), kept[-1]) == (2000, "…")


def source(end: Any, latest: Any) -> dict[str, Any]:
    return {"endOffset": end, "latestOffset": latest}


@pytest.mark.parametrize(
    ("sources", "lag"),
    [
        ([source('{"t":{"0":5,"1":7}}', '{"t":{"0":9,"1":7}}')], 4),
        ([source({"t": {"0": 5}}, {"t": {"0": 9, "1": 2}})], 6),
        ([source('{"t":{"0":5}}', '{"t":{"0":5}}'), source('{"u":{"0":1}}', '{"u":{"0":2}}')], 1),
        ([source('{"t":{"0":5}}', None)], None),
        ([source("12", "13")], None),
        ([], None),
    ],
)
def test_lag_is_what_there_is_less_what_was_read(sources: list[dict[str, Any]], lag: int | None) -> None:
    assert lag_of(sources) == lag


def test_what_spark_tells_becomes_a_few_numbers() -> None:
    told = {
        "batchId": 3,
        "timestamp": "2026-01-01T12:00:00.000Z",
        "numInputRows": 100,
        "processedRowsPerSecond": 312.54,
        "batchDuration": 320,
        "sources": [],
        "stateOperators": [
            {"numRowsTotal": 4, "memoryUsedBytes": 100, "numRowsDroppedByWatermark": 2},
            {"numRowsTotal": 1, "memoryUsedBytes": 50, "numRowsDroppedByWatermark": 1},
        ],
    }
    assert progress_of("q", told) == BatchProgress("q", 3, "2026-01-01T12:00:00.000Z", 100, 312.5, 320, None, 5, 150, 3)


def test_a_topic_that_was_made_anew_is_seen_between_start_and_end() -> None:
    before, now = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
    start = json.dumps({"t": {"0": 5}, f"t:{before}": {}, "u": {"0": 1}})
    sources = [
        {"startOffset": start, "endOffset": {"t": {"0": 2}, f"t:{now}": {}, "u": {"0": 1}, f"u:{now}": {}}},
        {"startOffset": None, "endOffset": start},
        {"startOffset": "12", "endOffset": "13"},
    ]
    assert topics_made_anew(sources) == ("t",), "of u nothing was known before"
