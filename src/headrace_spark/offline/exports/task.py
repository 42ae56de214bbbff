"""What a task of an export does: read one piece of a partition and write it as one Parquet file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.client.security.settings import OPEN
from headrace_spark.codec.columns import HEADERS_TYPE, TIMESTAMP_TYPE
from headrace_spark.offline.errors import OfflineFailed
from headrace_spark.offline.exports.manifest import WrittenFile
from headrace_spark.source.data_loss import DataLoss
from headrace_spark.source.options import SourceOptions
from headrace_spark.source.range_reader import read_range
from headrace_spark.source.ranges import OffsetRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.client.security.settings import ClientSecurity
    from headrace_spark.offline.exports.plan import Piece
    from headrace_spark.offline.storage import HashedFile, Storage

# Topic and partition are columns too: those of the directories.
FILE_SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP_TYPE),
        ("timestampType", pa.int32()),
        ("headers", HEADERS_TYPE),
    ]
)
ROW_GROUP_BYTES: Final = (
    64 << 20
)  # a reader takes a group at a time: large enough to scan fast, small beside its memory
PAGE_BYTES: Final = 1 << 20
ZSTD_LEVEL: Final = 1  # half the time of level 3, for a few percent more bytes
FACTS_KEY: Final = b"headrace.export"  # in a file's own metadata, where it can be told from any other


@dataclass(frozen=True)
class ExportTask:
    """Travels to the executors, and is called there with one piece after the other."""

    bootstrap_servers: str
    storage: Storage
    isolation: str
    compression: str
    security: ClientSecurity = OPEN

    def __call__(self, piece: Piece) -> WrittenFile:
        """Write the file, unless an earlier run has."""
        return self._look_at(piece) or self._write(piece)

    def _look_at(self, piece: Piece) -> WrittenFile | None:
        """A file that has its name is whole, unless the machine lost power. Then it does not open, and is replaced."""
        size = self.storage.size(piece.path)
        if size is None:
            return None
        try:
            with self.storage.open(piece.path) as file:
                metadata = pq.read_metadata(file)
        except pa.ArrowInvalid:
            return None
        facts = json.loads((metadata.metadata or {}).get(FACTS_KEY, b"{}"))
        if facts.get("piece") != _piece_facts(piece):
            raise OfflineFailed(
                f"{self.storage.location}/{piece.path} is in the way: it is no file of this export",
                "move it away, or export to another place",
            )
        return _written(piece, metadata.num_rows, facts["record_bytes"], size, self.storage.sha256(piece.path))

    def _write(self, piece: Piece) -> WrittenFile:
        rows = record_bytes = 0
        with self.storage.whole_file(piece.path) as file, _writer(file, self.compression) as writer:
            for group in _row_groups(self._read(piece)):
                writer.write_table(group, row_group_size=group.num_rows)
                rows += group.num_rows
                record_bytes += _content_bytes(group)
            facts = {"piece": _piece_facts(piece), "record_bytes": record_bytes}
            writer.add_key_value_metadata({FACTS_KEY: json.dumps(facts).encode()})
        return _written(piece, rows, record_bytes, file.size, file.sha256)

    def _read(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        options = SourceOptions.parse(
            {
                "kafka.bootstrap.servers": self.bootstrap_servers,
                "kafka.isolation.level": self.isolation.replace("-", "_"),
                "subscribe": piece.topic,
                "columns": ",".join(FILE_SCHEMA.names),
            }
        ).secured(self.security)
        try:
            yield from read_range(options, OffsetRange(piece.topic, piece.partition, piece.start, piece.end))
        except DataLoss as loss:
            raise OfflineFailed(
                f"topic {piece.topic!r}, partition {piece.partition}: what lies from offset {piece.start} to "
                f"{piece.end - 1} expired, or the topic was deleted, before it was exported",
                "export what is left to another place; a longer retention.ms gives more time",
            ) from loss


def _content_bytes(rows: pa.Table) -> int:
    """Of keys and values: what the figures of an export count."""
    lengths = (pc.sum(pc.binary_length(rows.column(name))).as_py() for name in ("key", "value"))
    return sum(length or 0 for length in lengths)


def _writer(file: HashedFile, compression: str) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        file,
        FILE_SCHEMA,
        compression=compression,
        compression_level=ZSTD_LEVEL if compression == "zstd" else None,
        data_page_size=PAGE_BYTES,
        # Keys, values and headers seldom repeat so much that a dictionary is worth the time of making it.
        use_dictionary=["timestampType"],
        # What readers skip row groups by. The least and the greatest key or value help no reader.
        write_statistics=["offset", "timestamp"],
        column_encoding={"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"},
    )


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        waiting.append(batch)
        waiting_bytes += batch.nbytes
        if waiting_bytes >= ROW_GROUP_BYTES:
            yield pa.Table.from_batches(waiting, FILE_SCHEMA)
            waiting, waiting_bytes = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting, FILE_SCHEMA)


def _piece_facts(piece: Piece) -> list[str | int]:
    return [piece.topic, piece.partition, piece.start, piece.end]


def _written(piece: Piece, rows: int, record_bytes: int, file_bytes: int, sha256: str) -> WrittenFile:
    return WrittenFile(
        piece.path, piece.topic, piece.partition, piece.start, piece.end, rows, record_bytes, file_bytes, sha256
    )
