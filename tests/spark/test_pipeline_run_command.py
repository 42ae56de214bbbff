"""`headrace pipeline` as a user calls it: each command in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.clients.commands import COMMAND, call, environment

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.testing import Broker

pytestmark = pytest.mark.xdist_group("spark")

PATIENCE_S = 280.0  # against hangs only; each run starts a JVM
PIPELINE = """
name = "{name}"
[[source]]
name = "words"
topic = "{name}-words"
format = "text"
[query]
sql = "SELECT upper(value) AS value FROM words"
[[sink]]
topic = "{name}-shouts"
format = "text"
[run]
trigger = "200 milliseconds"
master = "local[1]"
[spark.conf]
"spark.sql.shuffle.partitions" = "1"
"""


@pytest.fixture
def file(broker: Broker, tmp_path: Path) -> Path:
    return written_file(broker, tmp_path, "shout")


def written_file(broker: Broker, tmp_path: Path, name: str) -> Path:
    """With topics of its own: the broker is one for all tests."""
    for topic in (f"{name}-words", f"{name}-shouts"):
        broker.create_topic(topic)
    file = tmp_path / "shout.toml"
    file.write_text(PIPELINE.format(name=name))
    return file


def start(broker: Broker, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(broker.bootstrap_servers),
    )


def wait_for_batch(running: subprocess.Popen[str], query: str) -> dict[str, Any]:
    """The first that had rows. Queries tell in no order."""
    assert running.stdout is not None
    for line in running.stdout:
        event: dict[str, Any] = json.loads(line)
        if event["event"] == "batch" and event["query"] == query and event["rows"]:
            return event
    raise AssertionError(running.stderr.read() if running.stderr else "")


def test_a_pipeline_runs_is_looked_at_and_stopped_from_elsewhere(broker: Broker, file: Path) -> None:
    address = broker.bootstrap_servers
    call(address, "produce", "--topic", "shout-words", stdin="one\ntwo\n")
    running = start(broker, "pipeline", "run", str(file))
    try:
        batch = wait_for_batch(running, "topic-shout-shouts")
        assert (batch["pipeline"], batch["batch_id"], batch["rows"]) == ("shout", 0, 2)

        second = call(address, "pipeline", "run", str(file))
        assert second.code == 1
        assert f"is running already, as process {running.pid} on" in second.talk
        assert "--take-over" in second.talk

        listed = {it["name"]: it for it in json.loads(call(address, "pipeline", "list", "--format", "json").out)}
        assert (listed["shout"]["state"], listed["shout"]["is_alive"]) == ("running", True)
        status = call(address, "pipeline", "status", "shout")
        assert (status.code, "topic-shout-shouts" in status.out) == (0, True)

        stopped = call(address, "pipeline", "stop", "shout", "--wait")
        assert (stopped.code, stopped.talk) == (0, "pipeline shout stopped\n")
        out, talk = running.communicate(timeout=PATIENCE_S)
    finally:
        running.kill()
    assert running.returncode == 0, talk
    assert json.loads(out.splitlines()[-1])["state"] == "stopped"
    shouts = call(address, "consume", "--topic", "shout-shouts", "--isolation", "read-committed")
    assert shouts.lines == ["ONE", "TWO"]
    again = call(address, "pipeline", "stop", "shout")
    assert (again.code, "does not run: it stopped" in again.talk) == (1, True)


@pytest.mark.long
def test_a_signal_stops_it_after_the_batch(broker: Broker, tmp_path: Path) -> None:
    address = broker.bootstrap_servers
    broker.create_topic("signal-words")  # the other one is made by the pipeline
    file = tmp_path / "signal.toml"
    file.write_text(PIPELINE.format(name="signal"))
    call(address, "produce", "--topic", "signal-words", stdin="one\n")
    running = start(broker, "pipeline", "run", str(file))
    try:
        wait_for_batch(running, "topic-signal-shouts")
        running.send_signal(signal.SIGTERM)
        _, talk = running.communicate(timeout=PATIENCE_S)
    finally:
        running.kill()
    assert running.returncode == 143, talk
    assert "Traceback" not in talk
    shouts = call(address, "consume", "--topic", "signal-shouts", "--isolation", "read-committed")
    assert shouts.lines == ["ONE"]
    status = json.loads(call(address, "pipeline", "status", "signal", "--format", "json").out)
    assert (status["state"], status["is_alive"], status["queries"][0]["rows"]) == ("stopped", False, 1)


def test_what_is_not_there_is_told_in_one_sentence(broker: Broker, tmp_path: Path) -> None:
    unknown = call(broker.bootstrap_servers, "pipeline", "status", "nobody-knows-it")
    assert (unknown.code, unknown.talk.splitlines()[0]) == (3, "error: there is no pipeline 'nobody-knows-it'")
    missing = call(broker.bootstrap_servers, "pipeline", "run", str(tmp_path / "missing.toml"))
    assert (missing.code, "no such file" in missing.talk) == (1, True)


def test_spark_connect_is_refused_before_anything_is_done(broker: Broker, tmp_path: Path) -> None:
    file = written_file(broker, tmp_path, "remote")
    address, server = broker.bootstrap_servers, "sc://127.0.0.1:15002"
    for arguments in (
        ["pipeline", "run", str(file), "--master", server],
        ["export", "--topic", "remote-words", "--out", str(tmp_path / "out"), "--master", server],
    ):
        told = call(address, *arguments)
        assert (told.code, told.talk.count("\n")) == (1, 1)
        assert told.talk.startswith(f"error: {server} is Spark Connect")
    assert "remote" not in call(address, "pipeline", "list").out


def test_a_wrong_file_is_told_with_its_line(broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(PIPELINE.format(name="wrong").replace("format", "formta", 1))
    for verb in ("run", "explain"):
        told = call(broker.bootstrap_servers, "pipeline", verb, str(file))
        assert (told.code, f"error: {file}:6: " in told.talk) == (1, True)
    checked = call(broker.bootstrap_servers, "pipeline", "validate", str(file))
    assert checked.code == 1
    (line,) = checked.lines
    assert line.startswith(f"{file}:6: ")


def test_looking_at_pipelines_does_not_import_spark(broker: Broker) -> None:
    for arguments in (["list"], ["status", "x"], ["stop", "x"]):
        command = [sys.executable, "-X", "importtime", "-m", "headrace", "pipeline", *arguments]
        trace = subprocess.run(
            command, capture_output=True, text=True, env=environment(broker.bootstrap_servers), check=False
        ).stderr
        loaded = {line.rpartition("|")[2].strip() for line in trace.splitlines() if line.startswith("import time:")}
        assert "headrace_spark.pipeline.status.run_status" in loaded
        assert not loaded & {"pyspark", "pyarrow", "numpy", "rich"}
