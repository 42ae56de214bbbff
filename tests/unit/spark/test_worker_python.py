"""Python for Spark's workers: it connects back before it imports, and behaves as Python does otherwise."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from headrace_spark.worker_python import without_copies_of_pyspark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE_S = 60.0  # against hangs only
COMMAND = (sys.executable, "-m", "headrace_spark.worker_python")
SECRET = "between us"
# Stands for all that a worker imports before it answers: it waits until the test lets it go on.
SLOW_PYSPARK = """
import os
with open(os.environ["GATE"]) as gate:
    gate.read()
"""
WORKER_UTIL = """
def local_connect_and_auth(conn_info, auth_secret):
    raise AssertionError("it is connected already")
"""
PLANNER = """
from pyspark import worker_util
stream, connected = worker_util.local_connect_and_auth(None, None)
stream.write(b"planned")
stream.close()
"""


@pytest.fixture
def slow_pyspark(tmp_path: Path) -> Path:
    package = tmp_path / "modules" / "pyspark"
    package.mkdir(parents=True)
    for name, text in {"__init__": SLOW_PYSPARK, "worker_util": WORKER_UTIL, "planner": PLANNER}.items():
        (package / f"{name}.py").write_text(text)
    return package.parent


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


@contextmanager
def worker(search_path: Path, gate: Path, **variables: str) -> Iterator[subprocess.Popen[str]]:
    environ = {**os.environ, "PYTHONPATH": f"{search_path}:{os.environ.get('PYTHONPATH', '')}", "GATE": str(gate)}
    command = [*COMMAND, "-m", "pyspark.planner"]
    with subprocess.Popen(command, env={**environ, **variables}, stderr=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


@pytest.fixture
def jvm() -> Iterator[socket.socket]:
    """What listens in Spark's stead."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE_S)
        yield listening


def accept(jvm: socket.socket) -> IO[bytes]:
    connected, _ = jvm.accept()
    with connected:
        connected.settimeout(PATIENCE_S)
        return connected.makefile("rwb")


def address_of(jvm: socket.socket) -> dict[str, str]:
    return {"PYTHON_WORKER_FACTORY_PORT": str(jvm.getsockname()[1]), "PYTHON_WORKER_FACTORY_SECRET": SECRET}


def test_a_worker_connects_before_it_imports(slow_pyspark: Path, gate: Path, jvm: socket.socket) -> None:
    with worker(slow_pyspark, gate, **address_of(jvm)) as started:
        with accept(jvm) as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            assert stream.read(size).decode() == SECRET
            stream.write(struct.pack(">i", 2) + b"ok")
            stream.flush()
            gate.write_text("")  # only now it gets past its imports
            assert stream.read() == b"planned"
        assert started.wait(PATIENCE_S) == 0


def test_a_worker_connects_by_a_path_where_spark_wants_that(slow_pyspark: Path, gate: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.settimeout(PATIENCE_S)
        listening.bind(path)
        listening.listen()
        with worker(slow_pyspark, gate, PYTHON_WORKER_FACTORY_SOCK_PATH=path) as started:
            with accept(listening) as stream:
                gate.write_text("")
                assert stream.read() == b"planned"
            assert started.wait(PATIENCE_S) == 0


def test_a_worker_that_is_refused_says_so(slow_pyspark: Path, gate: Path, jvm: socket.socket) -> None:
    with worker(slow_pyspark, gate, **address_of(jvm)) as started, accept(jvm) as stream:
        stream.write(struct.pack(">i", 3) + b"err")
        stream.flush()
        assert "does not take this worker for its own" in started.communicate(timeout=PATIENCE_S)[1]


def run(*arguments: str, cwd: Path) -> str:
    ran = subprocess.run([*COMMAND, *arguments], cwd=cwd, capture_output=True, text=True, check=True)
    return ran.stdout


def test_it_is_called_as_python_is(tmp_path: Path) -> None:
    (tmp_path / "told.py").write_text("import sys; print(__name__, sys.argv[1:])")

    assert run("-m", "told", "a", "b", cwd=tmp_path) == "__main__ ['a', 'b']\n"
    assert run("-c", "import sys; print(__name__, sys.argv)", "a", cwd=tmp_path) == "__main__ ['-c', 'a']\n"


@pytest.mark.parametrize("arguments", [[], ["-m"], ["script.py", "a"]])
def test_it_says_what_it_takes(arguments: list[str]) -> None:
    ran = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr.startswith("usage: headrace-spark-python ")) == (1, True)


def test_the_copy_inside_an_installed_pyspark_is_left_out(tmp_path: Path) -> None:
    library = tmp_path / "site-packages" / "pyspark" / "python" / "lib"
    library.mkdir(parents=True)
    (library.parents[1] / "__init__.py").touch()
    copy, bridge = f"{library}/pyspark.zip", f"{library}/py4j-0.10.9.9-src.zip"

    assert without_copies_of_pyspark(["/a", copy, bridge, "/one's own:/b.zip"]) == ["/a", "/one's own:/b.zip"]


def test_the_pyspark_of_another_spark_is_the_one_to_use() -> None:
    """Executors of a Spark that was installed by itself have theirs from there."""
    search_path = ["/opt/spark/python/lib/pyspark.zip", "/opt/spark/python/lib/py4j-0.10.9.9-src.zip", "/a"]

    assert without_copies_of_pyspark(search_path) == search_path
