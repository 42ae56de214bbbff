"""What an export has written. The manifest comes last: where there is one, everything it names is there and whole."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace_spark.offline.errors import OfflineFailed
from headrace_spark.offline.exports.plan import ExportRequest, PartitionRange, read_json, request_from

if TYPE_CHECKING:
    from headrace_spark.offline.storage import Storage

MANIFEST_NAME: Final = "_manifest.json"
MANIFEST_FORMAT: Final = "headrace-export"
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One file of an export."""

    path: str
    """From the manifest's directory."""
    topic: str
    partition: int
    start: int
    end: int
    """The file holds what there was of offsets `[start, end)`."""
    rows: int
    record_bytes: int
    """Keys and values, before compression."""
    file_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that an export has written, and what it was asked for."""

    request: ExportRequest
    ranges: tuple[PartitionRange, ...]
    files: tuple[WrittenFile, ...]
    """By topic, partition and offset."""
    finished_at: str
    """ISO 8601, UTC."""

    @property
    def rows(self) -> int:
        """Records in all files."""
        return sum(file.rows for file in self.files)

    @property
    def record_bytes(self) -> int:
        """Keys and values of all records, before compression."""
        return sum(file.record_bytes for file in self.files)

    @property
    def file_bytes(self) -> int:
        """The size of all files."""
        return sum(file.file_bytes for file in self.files)

    def to_json(self) -> bytes:
        """The content of `_manifest.json`."""
        content: dict[str, Any] = {
            "format": MANIFEST_FORMAT,
            "version": VERSION,
            "finished_at": self.finished_at,
            "rows": self.rows,
            "record_bytes": self.record_bytes,
            "file_bytes": self.file_bytes,
            "request": asdict(self.request),
            "ranges": [asdict(part) for part in self.ranges],
            "files": [asdict(file) for file in self.files],
        }
        return json.dumps(content, indent=1).encode()

    @classmethod
    def from_json(cls, text: bytes, where: str) -> Manifest:
        """The reverse.

        `where` names the file in errors. Raises OfflineFailed if it is damaged, or from another version.
        """
        content = read_json(text, MANIFEST_FORMAT, VERSION, where)
        try:
            return cls(
                request_from(content["request"]),
                tuple(PartitionRange(**part) for part in content["ranges"]),
                tuple(WrittenFile(**file) for file in content["files"]),
                content["finished_at"],
            )
        except (KeyError, TypeError) as wrong:
            raise OfflineFailed(f"{where} is damaged: {wrong!r}") from wrong


def read_manifest(storage: Storage) -> Manifest | None:
    """The manifest of a finished export; None if there is none. Raises OfflineFailed if it is damaged."""
    text = storage.read(MANIFEST_NAME)
    return None if text is None else Manifest.from_json(text, f"{storage.location}/{MANIFEST_NAME}")
