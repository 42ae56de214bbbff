"""What a session takes from us, and what the user has decided already."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from headrace_spark.session import (
    ConnectUnsuitable,
    default_settings,
    is_submitted,
    prepare_environment,
    refuse_connect,
)


def test_a_local_session_is_quiet_and_keeps_to_this_machine() -> None:
    settings = default_settings({}, "local[*]", {})

    assert settings["spark.ui.enabled"] == "false"
    assert settings["spark.ui.showConsoleProgress"] == "false"
    assert settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert "log4j2.properties" in settings["spark.driver.extraJavaOptions"]


def test_a_remote_master_must_be_able_to_reach_the_driver() -> None:
    settings = default_settings({}, "spark://host:7077", {})

    assert not {"spark.driver.host", "spark.driver.bindAddress", "spark.ui.enabled"} & set(settings)


def test_what_was_decided_elsewhere_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("# the site's\nspark.driver.host   here\n")
    (tmp_path / "log4j2.properties").write_text("rootLogger.level = info\n")
    environ = {
        "SPARK_CONF_DIR": str(tmp_path),
        "PYSPARK_SUBMIT_ARGS": "--conf spark.ui.enabled=true pyspark-shell",
    }

    settings = default_settings(environ, "local[2]", {"spark.driver.bindAddress": "0.0.0.0"})

    assert settings == {"spark.ui.showConsoleProgress": "false"}


@pytest.mark.parametrize(
    "environ",
    [
        {"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--master=spark://host:7077 pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--conf spark.master=yarn pyspark-shell"},
        {"PYSPARK_GATEWAY_PORT": "1234"},
    ],
)
def test_a_submitted_program_has_its_master(environ: dict[str, str]) -> None:
    assert is_submitted(environ)


def test_submit_arguments_without_a_master_leave_it_to_the_caller() -> None:
    assert not is_submitted({"PYSPARK_SUBMIT_ARGS": "--conf spark.driver.memory=2g pyspark-shell"})


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]", "spark://host:7077"])
def test_workers_run_on_this_python(master: str, tmp_path: Path) -> None:
    """Spark's own guess, whatever `python3` there is on the PATH, has no headrace."""
    environ = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}

    prepare_environment(environ, master)

    said = subprocess.run(
        [environ["PYSPARK_PYTHON"], "-c", "import sys, headrace_spark; print(sys.prefix)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == sys.prefix
    assert "JAVA_HOME" in environ


def test_workers_elsewhere_are_not_led_to_a_file_that_only_this_machine_has(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}

    prepare_environment(environ, "spark://host:7077")

    assert Path(environ["PYSPARK_PYTHON"]).parent == Path(sys.executable).parent


@pytest.mark.parametrize(
    ("master", "environ"), [("sc://host:15002", {}), ("local[*]", {"SPARK_REMOTE": "sc://host:15002"})]
)
def test_spark_connect_is_refused_in_one_sentence(master: str, environ: dict[str, str]) -> None:
    with pytest.raises(ConnectUnsuitable) as refused:
        refuse_connect(master, environ)
    assert str(refused.value).startswith(
        "sc://host:15002 is Spark Connect, where pipelines, export and import do not run"
    )
    refuse_connect("spark://host:7077", {})


def test_a_chosen_python_stays() -> None:
    environ = {"PYSPARK_PYTHON": "/opt/python", "PYSPARK_GATEWAY_PORT": "1234"}

    prepare_environment(environ, "local[2]")

    assert environ == {"PYSPARK_PYTHON": "/opt/python", "PYSPARK_GATEWAY_PORT": "1234"}
