"""The driver is killed in the middle. The next run goes on, and the outcome is as if nothing had happened."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.spark.offline_commands import driver
from tests.spark.offline_topics import by_key, everything, fill, read_back, sample

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import Popen

    from headrace.testing import Broker
    from tests.spark.offline_commands import Commands

pytest_plugins = ["tests.spark.offline_fixtures"]
pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

WAIT_S = 240.0  # against hangs


def wait_until(is_so: object, process: Popen[bytes]) -> None:
    assert callable(is_so)
    deadline_s = time.monotonic() + WAIT_S
    while not is_so():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def test_an_export_goes_on_after_its_driver_was_killed(commands: Commands, broker: Broker, tmp_path: Path) -> None:
    name = f"killed-{uuid4().hex[:8]}"
    broker.create_topic(name, partitions=2)
    messages = [sample(number) for number in range(3000)]
    fill(broker.bootstrap_servers, name, messages)
    arguments = ("export", "--topic", name, "--out", tmp_path, "--file-size", "4KB")

    with driver(*arguments, "--master", "local[2]", "--bootstrap-server", broker.bootstrap_servers) as process:
        wait_until(lambda: any(tmp_path.rglob("*.parquet")), process)
        process.kill()
        process.wait()
        assert not (tmp_path / "_manifest.json").exists()
        finished = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
        fill(broker.bootstrap_servers, name, messages[:10])  # after the plan: not part of it
        summary = commands.json(*arguments)

    planned = json.loads((tmp_path / "_plan.json").read_text())["files"]
    assert 0 < len(finished) < len(planned) == summary["files"]
    assert all(path.stat().st_mtime_ns == written for path, written in finished.items())
    assert summary["rows"] == len(messages)
    table = ds.dataset(tmp_path, format="parquet", partitioning="hive").to_table(columns=["value", "headers"])
    assert sorted(map(str, table["value"].to_pylist())) == sorted(str(message.value) for message in messages)
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".tmp")]


def test_an_import_goes_on_after_its_driver_was_killed(commands: Commands, broker: Broker, tmp_path: Path) -> None:
    name = f"killed-{uuid4().hex[:8]}"
    broker.create_topic(name, partitions=3)
    count = 30_000
    for index in range(3):
        rows = range(index * count // 3, (index + 1) * count // 3)
        table = pa.table({"key": [f"{number % 50}" for number in rows], "value": [f"{number}" for number in rows]})
        pq.write_table(table, tmp_path / f"{index}.parquet", row_group_size=997)
    arguments = ("import", "--topic", name, "--in", tmp_path)

    with driver(
        *arguments, "--rate", "5000/s", "--master", "local[2]", "--bootstrap-server", broker.bootstrap_servers
    ) as process:
        wait_until(lambda: any(read_back(broker.bootstrap_servers, name).values()), process)
        time.sleep(0.3)  # into another transaction
        process.kill()
        process.wait()
        summary = commands.json(*arguments)  # the killed one's workers may live on for a moment

    assert 0 < summary["rows_sent"] < count
    found = read_back(broker.bootstrap_servers, name)
    assert sorted(int(message.value or b"") for message in everything(found)) == list(range(count))
    for messages in by_key(found).values():
        numbers = [int(message.value or b"") for message in messages]
        assert numbers == sorted(numbers)


@pytest.mark.long
@pytest.mark.timeout(1000)
def test_on_a_cluster_ctrl_c_ends_it_in_peace_and_the_next_run_goes_on(broker: Broker, tmp_path: Path) -> None:
    """Two workers in processes of their own, which know only what the job brings them."""
    name = f"cluster-{uuid4().hex[:8]}"
    for topic in (name, f"{name}-back"):
        broker.create_topic(topic, partitions=2)
    messages = [sample(number) for number in range(3000)]
    fill(broker.bootstrap_servers, name, messages)
    where = ("--master", "local-cluster[2,1,1024]", "--bootstrap-server", broker.bootstrap_servers, "--format", "json")
    export = ("export", "--topic", name, "--out", tmp_path, "--file-size", "4KB", *where)

    with driver(*export) as process:
        wait_until(lambda: any(tmp_path.rglob("*.parquet")), process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130
    assert out == b""
    assert b"run the same command again" in err
    assert b"Traceback" not in err
    assert not (tmp_path / "_manifest.json").exists()

    for arguments in (export, ("import", "--topic", f"{name}-back", "--in", tmp_path, *where)):
        with driver(*arguments) as process:
            out, err = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0, err
        assert json.loads(out)["rows"] == len(messages)
    before, after = (read_back(broker.bootstrap_servers, topic) for topic in (name, f"{name}-back"))
    assert everything(after) == everything(before)
    assert by_key(after) == by_key(before)
