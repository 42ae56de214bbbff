"""A task that cannot write says so in a sentence, leaves nothing half-done, and can be run again."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from headrace.testing import Broker
from headrace_spark.offline.exports.plan import Piece
from headrace_spark.offline.exports.task import ExportTask
from headrace_spark.offline.storage import Storage
from tests.spark.offline_topics import FIRST_MS, Message, fill

if TYPE_CHECKING:
    from pathlib import Path

FILE_BYTES_MAX = 100_000
# A limit on the size of files stands for a disk that is full: both fail a write in the middle of a file.
IN_A_SMALL_PLACE = f"""
import resource, sys
from headrace_spark.offline.exports.task import ExportTask
from headrace_spark.offline.exports.plan import Piece
from headrace_spark.offline.scatter import TaskFailure, attempt
from headrace_spark.offline.storage import Storage

resource.setrlimit(resource.RLIMIT_FSIZE, ({FILE_BYTES_MAX}, {FILE_BYTES_MAX}))
task = ExportTask(sys.argv[1], Storage.at(sys.argv[2]), "read-committed", "none")
outcome = attempt(task, Piece("orders", 0, 0, 500))
assert isinstance(outcome, TaskFailure), outcome
print(outcome.what)
"""


def test_a_disk_that_is_full_is_told_and_the_next_run_goes_on(tmp_path: Path) -> None:
    piece = Piece("orders", 0, 0, 500)
    with Broker() as broker:
        broker.create_topic("orders")
        fill(broker.bootstrap_servers, "orders", [Message(None, b"x" * 1000, (), FIRST_MS)] * 500)

        command = [sys.executable, "-c", IN_A_SMALL_PLACE, broker.bootstrap_servers, str(tmp_path)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        left = [path for path in tmp_path.rglob("*") if path.is_file()]
        written = ExportTask(broker.bootstrap_servers, Storage.at(str(tmp_path)), "read-committed", "none")(piece)

    assert "File too large" in ran.stdout
    assert len(ran.stdout.splitlines()) == 1
    assert left == []
    assert written.rows == 500
    assert written.record_bytes == 500_000
