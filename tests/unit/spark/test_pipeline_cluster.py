"""`[cluster]` of a pipeline's file: how to come in, with no secret in the file, in options, or in what is shown."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from headrace.client.security.credentials import PasswordCredentials
from headrace_spark.pipeline.file.errors import PipelineError
from headrace_spark.pipeline.file.loader import load
from headrace_spark.pipeline.inspect.explain import explain
from headrace_spark.source.options import SourceOptions

if TYPE_CHECKING:
    from pathlib import Path

REST = """
[[source]]
name = "orders"
topic = "orders"
format = "text"
[[sink]]
topic = "copied"
"""
LOGIN = """
security.protocol = "SASL_SSL"
sasl.mechanism = "SCRAM-SHA-512"
sasl.username = "${WHO:-alice}"
sasl.password = "${env:PIPELINE_SECRET}"
ssl.ca.location = "ca.pem"
"""
ALICE = PasswordCredentials("SCRAM-SHA-512", "alice", "hunter2")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPELINE_SECRET", "hunter2")
    for name in ("HEADRACE_BOOTSTRAP_SERVER", "HEADRACE_COMMAND_CONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "copy.toml"


def written(file: Path, cluster: str) -> Path:
    file.write_text('name = "copy"\n[cluster]\n' + cluster + REST)
    return file


def client_file(directory: Path, servers: str = "") -> Path:
    path = directory / "client.properties"
    path.write_text(
        f"{servers}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.username=alice\n"
        "sasl.password=hunter2\n"
    )
    path.chmod(0o600)
    return path


def test_a_client_s_settings_stand_in_the_file_and_a_secret_elsewhere(file: Path) -> None:
    pipeline = load(written(file, LOGIN))
    cluster = pipeline.cluster
    assert cluster.security.credentials == ALICE
    assert cluster.security.tls is not None
    assert cluster.settings["ssl.ca.location"] == str(file.parent / "ca.pem")
    assert cluster.options["kafka.sasl.password"] == "${env:PIPELINE_SECRET}"
    options = SourceOptions.parse({**cluster.options, "subscribe": "orders"})
    assert options.kafka.settings.security.credentials == ALICE
    for shown in (repr(pipeline), repr(cluster.options)):
        assert "hunter2" not in shown
    for travelling in (pickle.dumps(cluster), pickle.dumps(options)):
        assert b"hunter2" not in travelling


def test_no_secret_is_explained(file: Path) -> None:
    """It stands in a file here: Spark's processes may run already, and have the environment that they began with."""
    secret = file.with_name("secret")
    secret.write_text("hunter2")
    secret.chmod(0o600)
    pipeline = load(written(file, LOGIN.replace("${env:PIPELINE_SECRET}", f"${{file:{secret}}}")))
    assert pipeline.cluster.security.credentials == ALICE
    assert "hunter2" not in explain(pipeline)


def test_a_file_of_client_settings_is_read_where_it_is_used(file: Path) -> None:
    client_file(file.parent, "bootstrap.servers=kafka-1:1")
    pipeline = load(written(file, 'command_config = "client.properties"'))
    cluster = pipeline.cluster
    assert (cluster.bootstrap_servers, cluster.security.credentials) == ("kafka-1:1", ALICE)
    options = SourceOptions.parse({**cluster.options, "subscribe": "orders"})
    assert options.kafka.settings.security.credentials == ALICE
    assert "hunter2" not in f"{pipeline} {explain(pipeline)} {cluster.options}"
    travelling = pickle.dumps(options)
    assert b"hunter2" not in travelling
    assert pickle.loads(travelling).kafka.settings.security.credentials == ALICE


def test_what_is_given_wins_over_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = str(client_file(file.parent))
    assert load(written(file, LOGIN), properties={"sasl.username": "bob"}).cluster.settings["sasl.username"] == "bob"
    given = load(file, command_config=config).cluster
    assert (given.command_config, given.settings) == (config, {})
    monkeypatch.setenv("HEADRACE_COMMAND_CONFIG", config)
    assert load(file).cluster.command_config is None
    assert load(written(file, "")).cluster.security.credentials == ALICE


@pytest.mark.parametrize(
    ("cluster", "line", "words"),
    [
        (LOGIN.replace("${env:PIPELINE_SECRET}", "hunter2"), 7, "sasl.password holds a secret"),
        (LOGIN.replace("${env:PIPELINE_SECRET}", "${PIPELINE_SECRET}"), 7, "sasl.password holds a secret"),
        ('sasl.jaas.config = """x required username="a" password="hunter2";"""', 3, "sasl.jaas.config holds a secret"),
        (LOGIN.replace("PIPELINE_SECRET", "NOWHERE"), 2, "the environment has no NOWHERE"),
        (LOGIN.replace("SASL_SSL", "TLS"), 2, "security.protocol is 'TLS'"),
        ('command_config = "nowhere.properties"', 2, "cannot read"),
    ],
)
def test_what_cannot_be_is_told_with_its_line_and_no_secret(file: Path, cluster: str, line: int, words: str) -> None:
    with pytest.raises(PipelineError, match=words) as caught:
        load(written(file, cluster))
    assert caught.value.line == line
    assert "hunter2" not in str(caught.value)


def test_a_source_s_own_options_hold_no_secret_either(file: Path) -> None:
    text = written(file, "").read_text()
    file.write_text(text.replace("[[sink]]", '[source.options]\n"kafka.sasl.password" = "hunter2"\n[[sink]]'))
    with pytest.raises(PipelineError, match=r"sasl\.password holds a secret") as caught:
        load(file)
    assert "hunter2" not in str(caught.value)
