"""Topics of a data directory as files of JSON lines, without a node: what `headrace produce --json` reads again."""

from __future__ import annotations

import json
import os
import shlex
from collections import defaultdict, deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from headrace.cli.messages.formatter import message_object
from headrace.cli.rescue.text import damage_facts
from headrace.cli.terminal.complaints import NOT_FOUND, Complaint
from headrace.cli.terminal.output import plural, talk
from headrace.metadata.configs.config_keys import ConfigResource, ResourceKind
from headrace.metadata.configs.internal_topics import is_internal
from headrace.storage.files.damage import DamagedRange
from headrace.storage.integrity.salvage import WholeBatch, read_through, whole_batches
from headrace.wire.batches.header import CorruptBatch
from headrace.wire.batches.records import decode_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from headrace.broker.rescue.decided import Decided
    from headrace.broker.rescue.survivor import Survivor
    from headrace.model.names import TopicPartition
    from headrace.runtime.disk import Disk
    from headrace.storage.integrity.salvage import FoundLog, Survey
    from headrace.wire.batches.records import Record

INFLATE_MAX = 1 << 30  # a record that a node took in; memory is all that limits it here
ENCODE = json.JSONEncoder(ensure_ascii=False).encode
MANIFEST = "manifest.json"
RESTORE = "restore.sh"
TOPICS = "topics"


class Source(NamedTuple):
    """A log, and the file that it goes to, without its ending."""

    name: TopicPartition
    log: FoundLog
    stem: str


@dataclass(slots=True)
class Dumped:
    """What became of one log."""

    name: TopicPartition
    file: str
    records: int = 0
    aborted_records: int = 0
    open_records: int = 0
    open_file: str | None = None
    start_offset: int = 0
    end_offset: int = 0
    torn_bytes: int = 0
    damaged: list[DamagedRange] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        return {
            "topic": self.name.topic,
            "partition": self.name.partition,
            "file": self.file,
            "records": self.records,
            "start_offset": self.start_offset,
            "end_offset": self.end_offset,
            "aborted_records_left_out": self.aborted_records,
            "open_transaction_records": self.open_records,
            "open_transaction_file": self.open_file,
            "torn_bytes": self.torn_bytes,
            "damaged": [damage_facts(one) for one in self.damaged],
        }


# ---- what to dump


def sources(survivor: Survivor, topics: Sequence[str], *, with_set_aside: bool) -> list[Source]:
    """The logs of these topics; of all that are not internal, if none is named. Complaint if there is none of one."""
    found = [
        Source(name, survivor.logs[log_id], f"{TOPICS}/{name.topic}/{name.partition}")
        for log_id, name in survivor.names.items()
    ]
    if with_set_aside:
        found += [
            Source(it.name, it.log, f"{TOPICS}/{it.name.topic}/{it.directory.rpartition('/')[2]}")
            for it in survivor.set_aside
            if it.name is not None
        ]
    unknown = sorted(set(topics) - {source.name.topic for source in found})
    if unknown:
        raise Complaint(
            f"this disk has no log of {', '.join(unknown)}",
            "`headrace rescue inspect` shows what it has",
            exit_code=NOT_FOUND,
        )
    wanted = [it for it in found if (it.name.topic in topics if topics else not is_internal(it.name.topic))]
    return sorted(wanted, key=lambda source: (source.name, source.stem))


# ---- one log


def dump_log(
    disk: Disk,
    source: Source,
    out: Path,
    decided: Decided,
    *,
    keeps_aborted: bool = False,
    on_read: Callable[[int], None] = lambda _: None,
) -> Dumped:
    """Reads the log twice: what is aborted is known only behind it."""
    survey = read_through(disk, source.log, on_read)
    dumped = Dumped(source.name, f"{source.stem}.jsonl", start_offset=survey.start_offset, end_offset=survey.end_offset)
    dumped.damaged += survey.damaged
    dumped.torn_bytes = 0 if survey.torn is None else survey.torn.size
    (out / source.stem).parent.mkdir(parents=True, exist_ok=True)
    transactions = _Transactions(survey, source.name, decided)
    with _files(out, source.stem, has_open=transactions.has_open) as (lines, open_lines):
        writer = _LogWriter(dumped, transactions, lines, open_lines, keeps_aborted=keeps_aborted)
        for found in whole_batches(disk, source.log, on_read):
            if isinstance(found, WholeBatch) and not found.header.is_control:
                writer.write(found)
    if dumped.open_records:
        dumped.open_file = f"{source.stem}.open.jsonl"
    return dumped


@contextmanager
def _files(out: Path, stem: str, *, has_open: bool) -> Iterator[tuple[IO[bytes], IO[bytes] | None]]:
    """A file has its name when it is complete."""
    endings = [".jsonl", *([".open.jsonl"] if has_open else [])]
    drafts = [(out / f"{stem}{ending}.part").open("wb") for ending in endings]
    try:
        yield drafts[0], drafts[1] if has_open else None
        for draft in drafts:
            draft.flush()
            os.fsync(draft.fileno())
    finally:
        for draft in drafts:
            draft.close()
    for ending in endings:
        (out / f"{stem}{ending}.part").replace(out / f"{stem}{ending}")


class _Transactions:
    """Which batches are aborted, and which of a transaction that was never ended. To be asked in their order."""

    def __init__(self, survey: Survey, name: TopicPartition, decided: Decided) -> None:
        self._open: dict[int, int] = {}
        self._to_abort: dict[int, int] = {}
        """The coordinator has decided so; the marker did not get here. What it decided to commit is as good as that."""
        for producer_id, first_offset in survey.open_transactions.items():
            is_commit = decided.get((producer_id, name))
            if not is_commit:
                (self._open if is_commit is None else self._to_abort)[producer_id] = first_offset
        self._aborted: dict[int, deque[tuple[int, int]]] = defaultdict(deque)
        for ended in survey.aborted:
            self._aborted[ended.producer_id].append((ended.first_offset, ended.marker_offset))

    @property
    def has_open(self) -> bool:
        return bool(self._open)

    def is_aborted(self, batch: WholeBatch) -> bool:
        header = batch.header
        if not header.is_transactional:
            return False
        ended = self._aborted[header.producer_id]
        while ended and ended[0][1] < header.base_offset:
            ended.popleft()
        return _is_since(self._to_abort, batch) or (bool(ended) and ended[0][0] <= header.base_offset)

    def is_open(self, batch: WholeBatch) -> bool:
        return batch.header.is_transactional and _is_since(self._open, batch)


def _is_since(first_offsets: Mapping[int, int], batch: WholeBatch) -> bool:
    first_offset = first_offsets.get(batch.header.producer_id)
    return first_offset is not None and batch.header.base_offset >= first_offset


class _LogWriter:
    def __init__(
        self,
        dumped: Dumped,
        transactions: _Transactions,
        lines: IO[bytes],
        open_lines: IO[bytes] | None,
        *,
        keeps_aborted: bool,
    ) -> None:
        self._dumped = dumped
        self._transactions = transactions
        self._lines = lines
        self._open_lines = open_lines
        self._keeps_aborted = keeps_aborted

    def write(self, batch: WholeBatch) -> None:
        dumped = self._dumped
        if self._transactions.is_aborted(batch) and not self._keeps_aborted:
            dumped.aborted_records += batch.header.record_count
        elif self._transactions.is_open(batch):
            assert self._open_lines is not None, "an open transaction was seen before"
            dumped.open_records += self._write_records(batch, self._open_lines)
        else:
            dumped.records += self._write_records(batch, self._lines)

    def _write_records(self, batch: WholeBatch, lines: IO[bytes]) -> int:
        written, next_offset = 0, batch.header.base_offset
        try:
            for record in decode_records(batch.content, inflate_max=INFLATE_MAX):
                next_offset = record.offset + 1
                if record.offset >= self._dumped.start_offset:
                    lines.write(_line(self._dumped.name, record))
                    written += 1
        except CorruptBatch as damage:
            problem = f"the batch is whole, as its producer sent it, but cannot be read: {damage}"
            self._dumped.damaged.append(
                DamagedRange(batch.path, batch.position, next_offset, batch.header.next_offset, problem)
            )
        return written


def _line(name: TopicPartition, record: Record) -> bytes:
    shown = message_object(name, record)
    if record.timestamp < 0:
        shown["timestamp"] = None  # it never had one, and nobody takes in one before 1970
    return ENCODE(shown).encode() + b"\n"


# ---- all of them


def dump_logs(
    disk: Disk,
    found: Sequence[Source],
    out: Path,
    decided: Decided,
    *,
    keeps_aborted: bool,
    on_read: Callable[[int], None],
) -> list[Dumped]:
    dumped = []
    for source in found:
        done = dump_log(disk, source, out, decided, keeps_aborted=keeps_aborted, on_read=on_read)
        talk(f"{done.name}: {plural(done.records, 'record')}{_remarks(done)}")
        dumped.append(done)
    return dumped


def _remarks(done: Dumped) -> str:
    remarks = []
    if done.aborted_records:
        remarks.append(f"{plural(done.aborted_records, 'aborted record')} left out")
    if done.open_records:
        remarks.append(f"{plural(done.open_records, 'record')} of open transactions in {done.open_file}")
    if done.torn_bytes:
        remarks.append(f"a torn end of {plural(done.torn_bytes, 'byte')}")
    remarks += [f"DAMAGED: offsets {it.first_offset} to {it.end_offset - 1} are missing" for it in done.damaged]
    return "".join(f"; {remark}" for remark in remarks)


def write_manifest(out: Path, survivor: Survivor, dumped: Sequence[Dumped]) -> dict[str, Any]:
    """What the files are, and what is missing in them; and a script that brings everything into another cluster."""
    topics = sorted({it.name.topic for it in dumped})
    manifest = {
        "cluster_id": survivor.identity.cluster_id,
        "node_id": survivor.identity.node_id,
        "topics": [_topic_facts(survivor, topic, dumped) for topic in topics],
        "files": [it.facts() for it in dumped],
    }
    (out / RESTORE).write_text(_script(manifest))
    (out / RESTORE).chmod(0o700)
    (out / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    return manifest


def _topic_facts(survivor: Survivor, topic: str, dumped: Sequence[Dumped]) -> dict[str, Any]:
    known = survivor.image.topic_named(topic)
    here = 1 + max(it.name.partition for it in dumped if it.name.topic == topic)
    configs = survivor.image.configs_of(ConfigResource(ResourceKind.TOPIC, topic))
    return {
        "name": topic,
        "partitions": here if known is None else max(here, known.partition_count),
        "configs": {name: configs[name] for name in sorted(configs)},
    }


def _script(manifest: dict[str, Any]) -> str:
    lines = [
        "#!/bin/sh",
        "# Brings what was dumped into the cluster at $HEADRACE_BOOTSTRAP_SERVER. Offsets are given anew. Topics are",
        "# made if they are not there; run it once, for a second run sends everything a second time.",
        'set -e; cd "$(dirname "$0")"',
    ]
    for topic in manifest["topics"]:
        configs = [f"--config {shlex.quote(f'{name}={value}')}" for name, value in topic["configs"].items()]
        create = f"headrace topics create --name {topic['name']} --partitions {topic['partitions']} --if-not-exists"
        lines += ["", " ".join([create, *configs])]
        for file in (it for it in manifest["files"] if it["topic"] == topic["name"]):
            send = f"headrace produce --topic {topic['name']} --json --file"
            if file["records"]:
                lines.append(f"{send} {shlex.quote(file['file'])}")
            if file["open_transaction_file"]:
                lines.append(
                    f"# of transactions that were never ended: {send} {shlex.quote(file['open_transaction_file'])}"
                )
    return "\n".join(lines) + "\n"
