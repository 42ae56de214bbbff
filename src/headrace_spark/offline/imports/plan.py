"""What an import will send, and which of it may be sent side by side.

A *lane* is a row of files that is sent from front to back by one task. Within a lane nothing overtakes, so messages of
one key keep their order as long as a key never lies in two lanes.

- An export has a lane for each partition that was exported. A partition's offsets are in order, and whoever produced
  by key has put a key into one partition. Where a topic was not written by key, or got partitions meanwhile, one key
  may lie in two lanes; but then the source itself gave its readers no order between the two.
- Other Parquet files make one lane, in the order of their names: any key may lie in any file.
"""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from headrace_spark.offline.errors import OfflineFailed
from headrace_spark.offline.exports.manifest import MANIFEST_NAME, Manifest, read_manifest
from headrace_spark.offline.exports.plan import PLAN_NAME

if TYPE_CHECKING:
    from headrace_spark.offline.imports.columns import ColumnNames
    from headrace_spark.offline.storage import Storage

ONLY_LANE: Final = "files"
FOOTERS_AT_ONCE: Final = 16  # most of the time is spent waiting for a store far away
NO_PARTITION: Final = -1


@dataclass(frozen=True, slots=True)
class InputFile:
    """A Parquet file to import."""

    path: str
    rows: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class Lane:
    """Files that one task sends from front to back."""

    name: str
    files: tuple[InputFile, ...]
    source_partition: int = NO_PARTITION

    @property
    def rows(self) -> int:
        """Rows of all its files."""
        return sum(file.rows for file in self.files)

    @property
    def file_bytes(self) -> int:
        """The size of all its files."""
        return sum(file.file_bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class Input:
    """All that an import will send."""

    lanes: tuple[Lane, ...]
    is_export: bool

    @property
    def rows(self) -> int:
        """Rows of all lanes."""
        return sum(lane.rows for lane in self.lanes)

    @property
    def file_bytes(self) -> int:
        """The size of all files."""
        return sum(lane.file_bytes for lane in self.lanes)

    def fingerprint(self, *circumstances: str) -> str:
        """A name for these files under these circumstances. Other files, or files that changed, have another one."""
        text = json.dumps([[astuple(lane) for lane in self.lanes], circumstances])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def find_input(storage: Storage, names: ColumnNames, source_topic: str | None) -> Input:
    """An export if there is a manifest, else every Parquet file below the place. Looks into files, sends nothing."""
    if storage.size("") is not None:
        raise OfflineFailed(f"{storage.location} is a file", "give the directory that it lies in")
    manifest = read_manifest(storage)
    if manifest is not None:
        found = _from_export(storage, manifest, source_topic)
        _check_columns(storage, found, names)
        return found
    if storage.size(PLAN_NAME) is not None:
        raise OfflineFailed(
            f"the export in {storage.location} is not finished: it has a plan, but no manifest yet",
            "run its `headrace export` again first",
        )
    if source_topic is not None:
        raise OfflineFailed(f"{storage.location} holds no export, so there is no source topic {source_topic!r} in it")
    return _from_files(storage, names)


def _from_export(storage: Storage, manifest: Manifest, source_topic: str | None) -> Input:
    topics = sorted({part.topic for part in manifest.ranges})
    if source_topic is None and len(topics) > 1:
        raise OfflineFailed(f"the export holds {', '.join(topics)}", "choose one with --source-topic")
    chosen = source_topic or topics[0]
    if chosen not in topics:
        raise OfflineFailed(f"the export holds {', '.join(topics)}, and not {chosen}", is_not_found=True)
    there = storage.list()
    by_partition: dict[int, list[InputFile]] = {}
    for file in manifest.files:  # by offset within a partition
        if file.topic == chosen:
            if there.get(file.path) != file.file_bytes:
                raise OfflineFailed(
                    f"{storage.location}/{file.path} is missing or has not the {file.file_bytes} bytes that "
                    f"{MANIFEST_NAME} says",
                    "export it again",
                )
            by_partition.setdefault(file.partition, []).append(InputFile(file.path, file.rows, file.file_bytes))
    lanes = tuple(
        Lane(f"{chosen}-{partition}", tuple(files), partition) for partition, files in sorted(by_partition.items())
    )
    return Input(lanes, is_export=True)


def _from_files(storage: Storage, names: ColumnNames) -> Input:
    paths = {path: size for path, size in storage.list().items() if _is_parquet(path)}
    if not paths:
        raise OfflineFailed(
            f"there is no Parquet file in {storage.location}",
            "files to import end in .parquet, and neither they nor their directories begin with . or _",
            is_not_found=True,
        )

    def look(path: str) -> InputFile:
        where = f"{storage.location}/{path}"
        file = open_parquet(storage, path)
        names.chosen(file.schema_arrow, where)
        return InputFile(path, file.metadata.num_rows, paths[path])

    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        files = tuple(pool.map(look, paths))
    return Input((Lane(ONLY_LANE, files),), is_export=False)


def _check_columns(storage: Storage, found: Input, names: ColumnNames) -> None:
    """All files of an export have the same columns: one look is enough."""
    if found.lanes:
        path = found.lanes[0].files[0].path
        names.chosen(open_parquet(storage, path).schema_arrow, f"{storage.location}/{path}")


def open_parquet(storage: Storage, path: str) -> pq.ParquetFile:
    """The file, its footer read. Raises OfflineFailed if it is not Parquet, or damaged."""
    try:
        return pq.ParquetFile(storage.open(path))
    except pa.ArrowInvalid as wrong:
        reason = " ".join(str(wrong).split())
        raise OfflineFailed(
            f"{storage.location}/{path} is not Parquet, or damaged: {reason}", "move it away, or replace it"
        ) from wrong


def _is_parquet(path: str) -> bool:
    is_hidden = any(part.startswith((".", "_")) for part in path.split("/"))
    return path.endswith(".parquet") and not is_hidden
