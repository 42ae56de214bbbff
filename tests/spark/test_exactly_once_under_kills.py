"""Topic to topic through Spark, while driver, Python workers and node are killed: each record arrives exactly once.

HEADRACE_RECORDS, HEADRACE_RUNS, HEADRACE_KILLS (of each kind) and HEADRACE_SEED say how much of it the campaigns do.
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import cycle, islice
from typing import TYPE_CHECKING

import pytest

from tests.spark.copying_under_kills import DRIVER, Plan, Victim, copy_under_kills
from tests.spark.two_host_cluster import TwoHostCluster, can_be_two_hosts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.spark.copying_under_kills import Figures

pytestmark = pytest.mark.xdist_group("spark")

RECORDS = int(os.environ.get("HEADRACE_RECORDS", "1000000"))
RUNS = int(os.environ.get("HEADRACE_RUNS", "10"))
KILLS = int(os.environ.get("HEADRACE_KILLS", "2"))
SEED = int(os.environ.get("HEADRACE_SEED", "1"))
PIPELINE_RUNS = max(1, RUNS // 5)
BATCHES = (16, 32)  # in which a campaign's records are copied, about; each life of the driver has its own measure
HOURS_S = 4 * 3600
HANG_S = 1200  # of a test that takes less than a minute on a machine that has nothing else to do

LOCAL = "local[2,4]"  # two threads, and a task may fail thrice
LOCAL_CLUSTER = "local-cluster[2,1,1024]"  # executors in JVMs of their own
TWO_HOSTS = "two hosts"  # the one place where speculation happens
MASTERS = (LOCAL, LOCAL_CLUSTER, TWO_HOSTS)


@pytest.fixture(scope="module")
def two_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoHostCluster]:
    if not can_be_two_hosts():
        pytest.skip("this system has one address of its own only, and speculation needs two hosts")
    with TwoHostCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.mark.timeout(HANG_S)
def test_each_record_arrives_once_through_a_kill_of_each(tmp_path: Path) -> None:
    plan = Plan(
        records=5_000,
        batch_records=(500, 800),
        kills={Victim.MACHINE: 1, Victim.WORKER: 1, Victim.NODE: 1},
        seed=SEED,
        master=LOCAL,
        straggling_s=1.0,
    )
    figures = copy_under_kills(tmp_path, plan)
    print(f"\n{figures}")
    assert figures.kills == plan.kills
    assert figures.task_ends["ExceptionFailure"]


def campaign(home: Path, master: str, seed: int, conf: Mapping[str, str], *, is_pipeline: bool = False) -> Figures:
    fewest, most = BATCHES
    plan = Plan(
        records=RECORDS,
        batch_records=(RECORDS // most, RECORDS // fewest),
        kills=Counter([*islice(cycle(DRIVER), seed, seed + KILLS), *[Victim.WORKER] * KILLS, *[Victim.NODE] * KILLS]),
        seed=seed,
        master=master,
        conf=conf,
        batches_between_max=4,
        is_pipeline=is_pipeline,
    )
    figures = copy_under_kills(home, plan)
    print(f"\n{figures}", flush=True)
    assert is_pipeline or figures.task_ends["ExceptionFailure"]
    return figures


@pytest.mark.long
@pytest.mark.timeout(HOURS_S)
@pytest.mark.parametrize(("seed", "master"), [(SEED + run, MASTERS[run % len(MASTERS)]) for run in range(RUNS)])
def test_each_record_arrives_once_through_many_kills(
    tmp_path: Path, request: pytest.FixtureRequest, seed: int, master: str
) -> None:
    if master == TWO_HOSTS:
        cluster: TwoHostCluster = request.getfixturevalue("two_hosts")
        figures = campaign(tmp_path, cluster.master, seed, cluster.conf)
        assert figures.twins, "no task ran twice: this run shows nothing about speculation"
    else:
        campaign(tmp_path, master, seed, {"spark.executor.memory": "768m"})


@pytest.mark.long
@pytest.mark.timeout(HOURS_S)
@pytest.mark.parametrize("seed", range(SEED, SEED + PIPELINE_RUNS))
def test_a_pipeline_delivers_each_record_once_through_many_kills(tmp_path: Path, seed: int) -> None:
    campaign(tmp_path, LOCAL, seed, {}, is_pipeline=True)
