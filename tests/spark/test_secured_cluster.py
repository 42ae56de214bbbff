"""Spark and pipelines on a cluster where everybody logs in: what they need comes from where it stands, and a secret is
in no plan, checkpoint, status, log or output.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Final

import pytest
from pyspark.errors import AnalysisException

from headrace.testing import Broker
from tests.clients.commands import COMMAND
from tests.spark.offline_commands import Commands

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

SECRET: Final = "planted-7f3a91c2e5"
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
PATIENCE_S: Final = 280.0
PIPELINE: Final = """
name = "shout"
[cluster]
bootstrap_servers = "{servers}"
security.protocol = "SASL_PLAINTEXT"
sasl.mechanism = "SCRAM-SHA-256"
sasl.username = "alice"
sasl.password = "${{env:SHOUT_SECRET}}"
[[source]]
name = "words"
topic = "words"
format = "text"
[query]
sql = "SELECT upper(value) AS value FROM words"
[[sink]]
topic = "shouts"
format = "text"
[run]
trigger = "available-now"
master = "local[1]"
[spark.conf]
"spark.sql.shuffle.partitions" = "1"
"""


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    with Broker(users={"alice": SECRET}) as broker:
        yield broker


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text(SECRET)
    path.chmod(0o600)
    return path


@pytest.fixture
def client_file(tmp_path: Path, secured: Broker) -> Path:
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in secured.client_settings("alice").items()))
    path.chmod(0o600)
    return path


def by_reference(broker: Broker, password_file: Path) -> dict[str, str]:
    settings = {**broker.client_settings("alice"), "sasl.password": f"${{file:{password_file}}}"}
    return {f"kafka.{name}": value for name, value in settings.items()}


def by_jaas(broker: Broker, password_file: Path) -> dict[str, str]:
    settings = broker.client_settings("alice")
    jaas = f'{SCRAM} required username="alice" password="${{file:{password_file}}}";'
    return {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "kafka.security.protocol": settings["security.protocol"],
        "kafka.sasl.mechanism": settings["sasl.mechanism"],
        "kafka.sasl.jaas.config": jaas,
    }


def leaks(directory: Path, *, apart: tuple[Path, ...] = ()) -> list[Path]:
    files = [path for path in directory.rglob("*") if path.is_file() and path not in apart]
    return [path for path in files if SECRET.encode() in path.read_bytes()]


def literally(broker: Broker, password_file: Path) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in broker.client_settings("alice").items()}


@pytest.mark.parametrize("ways", [by_reference, by_jaas, literally])
def test_source_and_sink_log_in(
    spark: SparkSession, secured: Broker, tmp_path: Path, password_file: Path, ways: object
) -> None:
    assert callable(ways)
    options = ways(secured, password_file)
    topic = f"orders-{ways.__name__}"
    secured.create_topic(topic)
    values = spark.range(10).selectExpr("CAST(id AS STRING) AS value")
    values.write.format("headrace").mode("append").options(**options).option("topic", topic).save()
    rows = spark.read.format("headrace").options(**options).option("subscribe", topic).load()
    assert rows.count() == 10
    plans = rows._jdf.queryExecution().toString()
    assert "Scan" in plans
    assert SECRET not in plans

    query = (
        spark.readStream.format("headrace")
        .options(**options)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("CAST(value AS STRING) AS value")
        .writeStream.format("text")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()
    assert len(spark.read.text(str(tmp_path / "out")).collect()) == 10
    assert query.lastProgress is not None
    assert SECRET not in query.lastProgress.json
    assert leaks(tmp_path, apart=(password_file,)) == []


def test_a_file_of_settings_says_all_of_it(spark: SparkSession, secured: Broker, client_file: Path) -> None:
    secured.create_topic("from-a-file")
    rows = spark.read.format("headrace").load(commandConfig=str(client_file), subscribe="from-a-file")
    assert rows.count() == 0
    assert SECRET not in rows._jdf.queryExecution().toString()


def test_a_wrong_password_is_told_in_one_sentence(
    spark: SparkSession, secured: Broker, password_file: Path, tmp_path: Path
) -> None:
    secured.create_topic("never-read")
    wrong = tmp_path / "wrong"
    wrong.write_text(f"{SECRET}-not")
    options = by_reference(secured, wrong)
    with pytest.raises(Exception, match="the login of 'alice' by SCRAM-SHA-256 failed") as caught:
        spark.read.format("headrace").options(**options).option("subscribe", "never-read").load().collect()
    assert SECRET not in str(caught.value)
    with pytest.raises(AnalysisException, match=r"begin with 'kafka\.': sasl\.password: cannot read") as told:
        spark.read.format("headrace").options(**by_reference(secured, tmp_path / "nowhere")).load(subscribe="x")
    assert SECRET not in str(told.value)


def command(environment: dict[str, str], *arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """A command of which nothing that it says has the secret."""
    ran = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, **environment},
        check=False,
    )
    assert SECRET not in ran.stdout + ran.stderr
    return ran


def test_a_pipeline_and_its_status(secured: Broker, tmp_path: Path, client_file: Path) -> None:
    for topic in ("words", "shouts"):
        secured.create_topic(topic)
    file = tmp_path / "shout.toml"
    file.write_text(PIPELINE.format(servers=secured.bootstrap_servers))
    environment = {"SHOUT_SECRET": SECRET}
    config = ("--command-config", client_file)
    assert command({}, "produce", "--topic", "words", *config, stdin="one\ntwo\n").returncode == 0
    shown = command(environment, "pipeline", "explain", file)
    assert shown.returncode == 0, shown.stderr
    ran = command(environment, "pipeline", "run", file, "--format", "json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1])["state"] == "finished"
    read = command({}, "consume", "--topic", "shouts", *config)
    assert sorted(read.stdout.split()) == ["ONE", "TWO"]
    status = command({}, "pipeline", "status", "shout", "--format", "json", *config)
    assert json.loads(status.stdout)["state"] == "finished"
    kept = command({}, "consume", "--topic", "__headrace_pipelines", "--format", "json", *config)
    assert kept.returncode == 0
    assert '"shout"' in kept.stdout
    assert leaks(tmp_path, apart=(client_file,)) == []


def test_a_pipeline_without_its_secret_says_what_is_missing(secured: Broker, tmp_path: Path) -> None:
    file = tmp_path / "shout.toml"
    file.write_text(PIPELINE.format(servers=secured.bootstrap_servers))
    ran = command({"SHOUT_SECRET": ""}, "pipeline", "run", file)
    assert ran.returncode != 0
    assert "sasl.password: the environment has no SHOUT_SECRET" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_export_and_import_log_in(
    spark: SparkSession,
    secured: Broker,
    tmp_path: Path,
    client_file: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for topic in ("exported", "imported"):
        secured.create_topic(topic)
    assert (
        command({}, "produce", "--topic", "exported", "--command-config", client_file, stdin="a\nb\n").returncode == 0
    )
    monkeypatch.setenv("HEADRACE_COMMAND_CONFIG", str(client_file))
    headrace = Commands(secured, capfdbinary)
    out = tmp_path / "out"
    for arguments in (("export", "--topic", "exported", "--out", out), ("import", "--topic", "imported", "--in", out)):
        code, shown, talk = headrace(*arguments)
        assert code == 0, talk
        assert SECRET not in shown + talk
    _, shown, _ = headrace("consume", "--topic", "imported")
    assert sorted(shown.split()) == ["a", "b"]
    assert leaks(tmp_path, apart=(client_file,)) == []
