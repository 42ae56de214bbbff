"""Python for Spark's workers: called as Python is, with `-m module` or `-c text`, and quicker to answer.

Spark waits ten seconds, which no setting changes, for a worker that it starts by itself to connect back: the one that
plans a stream's batches, for instance. Such a worker imports all of pyspark first, and on a busy machine ten seconds
pass over that: "Python worker failed to connect back". Here it connects before it imports anything.

Spark also puts a zipped copy of pyspark before the installed one. Python has to compile that anew in each of the many
processes that Spark starts: a second of work, where the installed one takes a third. Here the copy is left out.
"""

from __future__ import annotations

import os
import runpy
import socket
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROGRAM: Final = "headrace-spark-python"
USAGE: Final = f"usage: {PROGRAM} (-m module | -c text) [argument]..."
_ACCEPTED: Final = b"ok"
_LENGTH_BYTES: Final = 4
_BUFFER_BYTES: Final = 65536
_ANSWER_S: Final = 15  # Spark's own default; the JVM may be as busy as we are


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a module or a text, as `python -m` and `python -c` do.

    Raises SystemExit with the usage if neither is given.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    if len(given) < 2 or given[0] not in {"-m", "-c"}:
        raise SystemExit(USAGE)
    option, what, *rest = given
    sys.path[:] = without_copies_of_pyspark(_as_python_begins(sys.path))
    if option == "-c":
        sys.argv = ["-c", *rest]
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - what `python -c` is for
        return
    sys.argv = [what, *rest]
    if what.startswith("pyspark."):
        _connect_first()
    runpy.run_module(what, run_name="__main__", alter_sys=True)


def _as_python_begins(search_path: Sequence[str]) -> list[str]:
    """A script's search path begins where the script lies; that of `-m` and `-c`, where the process works."""
    script_directory = str(Path(sys.argv[0]).resolve().parent)
    return [os.getcwd() if place == script_directory else place for place in search_path[:1]] + list(search_path[1:])


def without_copies_of_pyspark(search_path: Sequence[str]) -> list[str]:
    """A copy that lies inside an installed pyspark is one of it. Any other belongs to a Spark of its own, and stays."""
    copies = {library for library in map(_library_of_copy, search_path) if library is not None}
    return [place for place in search_path if not (_is_archive(place) and str(Path(place).parent) in copies)]


def _library_of_copy(place: str) -> str | None:
    """`…/site-packages/pyspark/python/lib`, if `place` is the archive of pyspark that lies there."""
    path = Path(place)
    package = path.parent.parent.parent
    is_copy = path.name == "pyspark.zip" and package.name == "pyspark" and (package / "__init__.py").is_file()
    return str(path.parent) if is_copy else None


def _is_archive(place: str) -> bool:
    name = Path(place).name
    return name == "pyspark.zip" or (name.startswith("py4j-") and name.endswith("-src.zip"))


# ---- the connection


def connect_back(environ: Mapping[str, str]) -> tuple[IO[bytes], socket.socket] | None:
    """Connected, and known to the JVM; None if the JVM does not wait for this process, but talks to it otherwise."""
    timeout_s = int(environ.get("SPARK_AUTH_SOCKET_TIMEOUT", _ANSWER_S))
    if path := environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH"):
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connected.settimeout(timeout_s)
        connected.connect(path)  # who may open this path needs no secret
        return _stream_of(connected, environ), connected
    if port := environ.get("PYTHON_WORKER_FACTORY_PORT"):
        host = "::1" if environ.get("SPARK_PREFER_IPV6", "").lower() == "true" else "127.0.0.1"
        connected = socket.create_connection((host, int(port)), timeout_s)
        stream = _stream_of(connected, environ)
        _introduce(stream, environ["PYTHON_WORKER_FACTORY_SECRET"].encode())
        return stream, connected
    return None


def _stream_of(connected: socket.socket, environ: Mapping[str, str]) -> IO[bytes]:
    return cast(IO[bytes], connected.makefile("rwb", int(environ.get("SPARK_BUFFER_SIZE", _BUFFER_BYTES))))


def _introduce(stream: IO[bytes], secret: bytes) -> None:
    stream.write(len(secret).to_bytes(_LENGTH_BYTES, "big") + secret)
    stream.flush()
    answer = stream.read(int.from_bytes(stream.read(_LENGTH_BYTES), "big"))
    if answer != _ACCEPTED:
        raise ConnectionRefusedError(f"Spark does not take this worker for its own: {answer!r}")


def _connect_first() -> None:
    """The workers of pyspark, whatever their module, ask one function for their connection. It gives them this one."""
    connection = connect_back(os.environ)
    if connection is None:
        return
    from pyspark import worker_util  # noqa: PLC0415 - the slow part, for which the JVM must not wait

    worker_util.local_connect_and_auth = lambda *_: connection  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
