"""What a pipeline's file says, as values.

`loader.load` makes them. Everything in them has been checked as far as that goes without Spark and without a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from headrace.client.connections.cluster import ClusterSettings
from headrace.client.security.files import security_of_file
from headrace.client.security.settings import parse_security
from headrace_spark.blocking import BlockingCluster

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

    from headrace.client.security.settings import ClientSecurity
    from headrace_spark.pipeline.file.errors import PipelineError
    from headrace_spark.pipeline.file.toml_lines import KeyPath
    from headrace_spark.pipeline.file.toml_section import TomlFile

OutputMode = Literal["append", "update", "complete"]
Otherwise = Literal["dead-letter", "drop", "fail"]
"""What becomes of a record that is not as it should be."""
Tombstones = Literal["dead-letter", "drop", "keep"]
SourceFormat = Literal["json", "csv", "text", "avro", "protobuf", "raw"]
SinkFormat = Literal["json", "csv", "text", "raw"]
TableFormat = Literal["parquet", "csv", "json", "delta"]

METADATA_COLUMNS = ("_key", "_topic", "_partition", "_offset", "_timestamp", "_headers")
"""What a source can tell of a record besides its value."""

DEAD_LETTERS_QUERY = "dead-letters"
"""The name of the query that writes them; no sink has it."""


@dataclass(frozen=True)
class ClusterSpec:
    """`[cluster]`: where the topics are."""

    bootstrap_servers: str
    command_config: str | None = None
    """A file of a Kafka client's settings. Each machine reads its own."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of a Kafka client that win over it, as they are written: of a secret they say where it is."""

    @property
    def options(self) -> dict[str, str]:
        """In the words of the source and the sink."""
        named = {f"kafka.{name}": value for name, value in self.settings.items()}
        config = {} if self.command_config is None else {"commandConfig": self.command_config}
        return {"kafka.bootstrap.servers": self.bootstrap_servers, **config, **named}

    @property
    def security(self) -> ClientSecurity:
        """How to come in. Raises ValueError if that cannot be made out here."""
        if self.command_config is not None:
            return security_of_file(self.command_config, self.settings)
        return parse_security(self.settings)

    def connect(self) -> BlockingCluster:
        """A client of its own, for this machine."""
        return BlockingCluster(self.bootstrap_servers, ClusterSettings(security=self.security))


@dataclass(frozen=True)
class Watermark:
    """How late records may come, by the time in a column of theirs."""

    column: str
    delay: str
    """As the file says it: "2 minutes"."""


@dataclass(frozen=True)
class SourceSpec:
    """A `[[source]]`: topics, how their records are decoded, and what becomes of those that do not decode."""

    name: str
    """The table's name in the SQL."""
    topics: tuple[str, ...]
    topic_pattern: str | None
    """A regular expression instead of topics; just one of both is given."""
    format: SourceFormat
    schema: str | None
    """Columns in Spark's DDL. None: the format says them (text, raw), or the schema file does (avro, protobuf)."""
    schema_file: str | None
    """An Avro schema, or a compiled set of Protobuf descriptors."""
    message: str | None
    """The full name of the Protobuf message."""
    has_registry_prefix: bool
    """Values begin with the five bytes of a schema registry."""
    starting: Literal["earliest", "latest"] | datetime
    watermark: Watermark | None
    dedupe: tuple[str, ...]
    metadata: tuple[str, ...]
    """Those of METADATA_COLUMNS that the table shall have."""
    undecodable: Otherwise
    tombstones: Tombstones
    records_per_batch_max: int | None
    is_data_loss_fatal: bool
    is_committed_only: bool
    """Records of open and aborted transactions are not seen."""
    options: Mapping[str, str]
    """Further options for Spark's reader; they win."""
    key_path: KeyPath


@dataclass(frozen=True)
class StaticTable:
    """A `[[table]]`: files that are read once, when the pipeline starts."""

    name: str
    format: TableFormat
    path: str
    schema: str | None
    options: Mapping[str, str]
    key_path: KeyPath


@dataclass(frozen=True)
class Expectation:
    """An `[[expect]]`: a condition that every record of a source must meet."""

    name: str
    source: str
    sql: str
    otherwise: Otherwise
    key_path: KeyPath


@dataclass(frozen=True)
class SqlQuery:
    """`[query]` with `sql`."""

    sql: str
    key_path: KeyPath


@dataclass(frozen=True)
class PythonQuery:
    """`[query]` with `python`: `module:function`, called with the session and the tables."""

    module: str
    function: str
    key_path: KeyPath


@dataclass(frozen=True)
class TopicSink:
    """A `[[sink]]` with `topic`."""

    name: str
    """Names the sink's query and its checkpoint. Made from where it writes to, unless the file says one."""
    topic: str
    key: str | None
    """The column whose value is the record's key; None: no key."""
    format: SinkFormat
    headers: str | None
    """The column that holds the headers, a map of strings."""
    mode: OutputMode
    key_path: KeyPath


@dataclass(frozen=True)
class _FileSink:
    name: str
    path: str
    partition_by: tuple[str, ...]
    target_file_bytes: int
    mode: OutputMode
    key_path: KeyPath


class ParquetSink(_FileSink):
    """Files in directories, for every reader of Parquet."""


class DeltaSink(_FileSink):
    """Files that a table's log names."""


@dataclass(frozen=True)
class ConsoleSink:
    """A `[[sink]]` with `console`."""

    name: str
    mode: OutputMode
    key_path: KeyPath


SinkSpec = TopicSink | ParquetSink | DeltaSink | ConsoleSink


@dataclass(frozen=True)
class AvailableNow:
    """Read what is there, then end."""


@dataclass(frozen=True)
class EverySeconds:
    """Start a batch so often."""

    seconds: float


@dataclass(frozen=True)
class RestartPolicy:
    """What follows a failure that may pass: the pipeline starts again after a pause that doubles each time."""

    attempts: int
    """In a row, without one finished batch between them. 0: a failure ends the pipeline."""
    backoff_first_s: float
    backoff_max_s: float


@dataclass(frozen=True)
class RunSpec:
    """`[run]`: when, where and under which names the pipeline runs, and what follows a failure."""

    trigger: AvailableNow | EverySeconds
    master: str
    checkpoint: str
    """A directory or an address; each query has a directory of its own name in it."""
    group: str
    """The consumer group under which the pipeline's progress is seen."""
    restart: RestartPolicy


@dataclass(frozen=True)
class DeadLetterSpec:
    """`[dead_letters]`: where rejected records go."""

    topic: str


@dataclass(frozen=True)
class Pipeline:
    """The whole file."""

    name: str
    cluster: ClusterSpec
    sources: tuple[SourceSpec, ...]
    tables: tuple[StaticTable, ...]
    expectations: tuple[Expectation, ...]
    query: SqlQuery | PythonQuery | None
    """None: the single source goes through as it is."""
    sinks: tuple[SinkSpec, ...]
    run: RunSpec
    dead_letters: DeadLetterSpec
    spark_conf: Mapping[str, str]
    path: Path
    file: TomlFile = field(repr=False, compare=False)

    @property
    def query_names(self) -> tuple[str, ...]:
        """One for each sink, and one for dead letters if there can be any."""
        rejecting = (DEAD_LETTERS_QUERY,) if any(map(self.has_dead_letters, self.sources)) else ()
        return (*(sink.name for sink in self.sinks), *rejecting)

    def checkpoint_of(self, query_name: str) -> str:
        """Where the query of a sink, or that of the dead letters, keeps how far it got."""
        return f"{self.run.checkpoint.rstrip('/')}/{query_name}"

    def expectations_of(self, source: SourceSpec) -> tuple[Expectation, ...]:
        """Those of one source, in the order of the file."""
        return tuple(expectation for expectation in self.expectations if expectation.source == source.name)

    def has_dead_letters(self, source: SourceSpec) -> bool:
        """Whether any record of this source may become one."""
        is_undecodable_kept = source.format != "raw" and source.undecodable == "dead-letter"
        is_expected = any(expectation.otherwise == "dead-letter" for expectation in self.expectations_of(source))
        return is_undecodable_kept or source.tombstones == "dead-letter" or is_expected

    def error(self, key_path: KeyPath, problem: str, hint: str = "") -> PipelineError:
        """An error about the key at this path of the file, with its line."""
        return self.file.error(key_path, problem, hint)
