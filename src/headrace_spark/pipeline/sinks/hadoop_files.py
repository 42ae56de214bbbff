"""Files where Spark keeps its own: on this disk, in HDFS or in an object store, through Hadoop's file system API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StoredFile(NamedTuple):
    """A file as the file system lists it."""

    path: str
    """Relative to the directory that was listed."""
    size_bytes: int
    modified_at_ms: int


class HadoopFiles:
    """All paths are whole ones, in the file system of the first. Only the driver comes here."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._jvm: Any = spark._jvm
        self._system = self._path(path).getFileSystem(spark._jsc.hadoopConfiguration())

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory of this name."""
        return bool(self._system.exists(self._path(path)))

    def list_names(self, directory: str) -> list[str]:
        """What lies directly in it; nothing if it does not exist."""
        if not self.exists(directory):
            return []
        return [status.getPath().getName() for status in self._system.listStatus(self._path(directory))]

    def list_parquet(self, directory: str) -> list[StoredFile]:
        """The Parquet files in it and below, in the order of their names."""
        if not self.exists(directory):
            return []
        root = self._system.makeQualified(self._path(directory)).toUri().getPath().rstrip("/") + "/"
        found = self._system.listFiles(self._path(directory), True)
        files = []
        while found.hasNext():
            status = found.next()
            path = status.getPath().toUri().getPath()
            if path.endswith(".parquet"):
                files.append(StoredFile(path.removeprefix(root), status.getLen(), status.getModificationTime()))
        return sorted(files)

    def make_directory(self, path: str) -> None:
        """With those around it. One that is there already is no error."""
        self._system.mkdirs(self._path(path))

    def touch(self, path: str) -> None:
        """Make an empty file, in place of one that may be there."""
        self._system.create(self._path(path), True).close()

    def rename(self, source: str, target: str) -> None:
        """The target must not exist: Hadoop would move a directory into it."""
        if not self._system.rename(self._path(source), self._path(target)):
            raise OSError(f"cannot rename {source} to {target}")

    def delete(self, path: str) -> None:
        """With all that lies in it. What is not there is no error."""
        self._system.delete(self._path(path), True)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)
