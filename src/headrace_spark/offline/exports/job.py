"""`headrace export`: plan, store the plan, share it out, and write the manifest when all is there."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.client.connections.cluster import ClusterSettings
from headrace.client.reading.offsets import IsolationLevel
from headrace.client.security.settings import OPEN
from headrace_spark.blocking import BlockingCluster
from headrace_spark.offline.errors import OfflineFailed
from headrace_spark.offline.exports.manifest import MANIFEST_NAME, Manifest, read_manifest
from headrace_spark.offline.exports.offset_specs import find_ranges, find_topics
from headrace_spark.offline.exports.plan import PLAN_NAME, Plan, cut
from headrace_spark.offline.exports.sampling import mean_record_bytes
from headrace_spark.offline.exports.task import ExportTask
from headrace_spark.offline.scatter import Scatter
from headrace_spark.offline.storage import is_temporary

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from headrace.client.connections.cluster import Cluster
    from headrace.client.security.settings import ClientSecurity
    from headrace_spark.offline.exports.manifest import WrittenFile
    from headrace_spark.offline.exports.offset_specs import OffsetSpec
    from headrace_spark.offline.exports.plan import ExportRequest
    from headrace_spark.offline.storage import Storage

CLIENT_ID: Final = "headrace-export"
RETRY_FOR_S: Final = 15.0  # a person waits; longer than a leader election


@dataclass(frozen=True)
class Export:
    """What to export, from where, and to where."""

    bootstrap_servers: str
    request: ExportRequest
    start: OffsetSpec
    end: OffsetSpec
    storage: Storage
    security: ClientSecurity = OPEN


class ExportProgress(NamedTuple):
    """How far it is, for a display."""

    done: int
    total: int
    """Offsets that the plan names, some of which may hold no record."""
    rows: int
    record_bytes: int


class ExportResult(NamedTuple):
    """What an export has done."""

    manifest: Manifest
    duration_s: float
    """Reading and writing; not what Spark takes to start."""
    was_there: bool
    """An earlier run had finished it, and nothing was left to do."""


def prepare_export(export: Export) -> Plan | Manifest:
    """Before Spark is started: the manifest if all is done already, else the plan, which is stored by now.

    A plan that was stored earlier is followed, if it is for the same request and for the topics that there are.
    """
    storage, request = export.storage, export.request
    manifest = read_manifest(storage)
    stored = storage.read(PLAN_NAME)
    earlier = manifest or (None if stored is None else Plan.from_json(stored, f"{storage.location}/{PLAN_NAME}"))
    if earlier is not None and (differences := request.differences(earlier.request)):
        raise OfflineFailed(
            f"{storage.location} holds another export already: {'; '.join(differences)}",
            "export to another place, or ask for the same again to go on with it",
        )
    if manifest is not None:
        return manifest
    settings = ClusterSettings(client_id=CLIENT_ID, retry_for_s=RETRY_FOR_S, security=export.security)
    with BlockingCluster(export.bootstrap_servers, settings) as blocking:
        if isinstance(earlier, Plan):
            blocking.run(_check_topics(blocking.cluster, earlier))
            return earlier
        _check_empty(storage)
        plan = blocking.run(_make_plan(blocking.cluster, export))
    storage.write(PLAN_NAME, plan.to_json())
    return plan


def run_export(
    spark: SparkSession, export: Export, plan: Plan, on_progress: Callable[[ExportProgress], None]
) -> ExportResult:
    """Follow the plan. OfflineFailed if something is in the way; what is written by then counts for the next run."""
    started_s = time.monotonic()
    request = export.request
    task = ExportTask(export.bootstrap_servers, export.storage, request.isolation, request.compression, export.security)
    tally = _Tally(sum(piece.end - piece.start for piece in plan.pieces), on_progress)
    files = Scatter(spark, task).run(plan.pieces, f"export to {export.storage.location}", tally.add, tally.show)
    found = export.storage.list()
    _check_visible(export.storage, files, found)
    manifest = Manifest(plan.request, plan.ranges, tuple(files), datetime.now(UTC).isoformat(timespec="seconds"))
    export.storage.write(MANIFEST_NAME, manifest.to_json())
    for name in filter(is_temporary, found):
        export.storage.delete(name)  # of attempts that were killed
    return ExportResult(manifest, time.monotonic() - started_s, was_there=False)


class _Tally:
    """Adds up what tasks report."""

    def __init__(self, total: int, on_progress: Callable[[ExportProgress], None]) -> None:
        self._progress = ExportProgress(0, total, 0, 0)
        self._on_progress = on_progress

    def add(self, file: WrittenFile) -> None:
        done, total, rows, record_bytes = self._progress
        self._progress = ExportProgress(
            done + file.end - file.start, total, rows + file.rows, record_bytes + file.record_bytes
        )

    def show(self) -> None:
        self._on_progress(self._progress)


async def _make_plan(cluster: Cluster, export: Export) -> Plan:
    request = export.request
    isolation = IsolationLevel[request.isolation.replace("-", "_").upper()]
    topics = await find_topics(cluster, request.topics, request.topics_pattern)
    ranges = await find_ranges(cluster, topics, export.start, export.end, isolation)
    row_bytes = {
        topic.name: await mean_record_bytes(cluster, [part for part in ranges if part.topic == topic.name], isolation)
        for topic in topics
    }
    return Plan(request, ranges, cut(ranges, row_bytes, request.file_bytes))


async def _check_topics(cluster: Cluster, plan: Plan) -> None:
    """A topic of the same name may be another one by now: its offsets would be mixed with those of the first."""
    ids = {part.topic: part.topic_id for part in plan.ranges}
    for name, topic_id in ids.items():
        topic = await cluster.topic(name)
        if topic_id and topic.topic_id.hex() != topic_id:
            raise OfflineFailed(
                f"topic {name!r} was deleted and made anew since this export began", "export it to another place"
            )


def _check_empty(storage: Storage) -> None:
    if others := [name for name in storage.list() if not is_temporary(name)]:
        raise OfflineFailed(
            f"{storage.location} is not empty and holds no export: {others[0]}",
            "export to a place that is empty or new",
        )


def _check_visible(storage: Storage, files: list[WrittenFile], found: dict[str, int]) -> None:
    """Tasks on other machines have their own disks."""
    for file in files:
        if found.get(file.path) != file.file_bytes:
            raise OfflineFailed(
                f"a task wrote {file.path}, but it is not to be seen in {storage.location} from here",
                "give a place that all machines of the cluster share, such as s3://bucket/path or a network directory",
            )
