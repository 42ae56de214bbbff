"""Record batches to Arrow and back, in this process and without a node: what one core of a Spark task can do."""

from __future__ import annotations

import importlib.util
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.programs import BenchError
from bench.report import Line, Outcome, at_least
from bench.stage import median_of
from headrace.wire.batches.header import Codec
from headrace.wire.batches.records import encode_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.report import Target
    from bench.stage import Stage

ROUNDS = 7
START_MS = 1_700_000_000_000
BATCH_BYTES = 1_000_000
PLAIN_BYTES = 24_000_000  # of values in a round: more than the caches hold
COSTLY_BYTES = 4_000_000  # the same where a byte takes ten times as long
CODECS = tuple(codec for codec in Codec if codec is not Codec.NONE)


@dataclass(frozen=True)
class Case:
    name: str
    value_bytes: int
    target: Target | None = None  # in million records/s below 1 KiB, and in MB/s of values from there on
    is_varied: bool = False  # values of half to one and a half times the size
    codec: Codec = Codec.NONE
    records_per_batch: int | None = None  # as many as fit

    def values(self) -> list[bytes]:
        """Hexadecimal digits: codecs make them half as long, as they do with much that people keep in topics."""
        chance = random.Random(1)
        total = COSTLY_BYTES if self.codec or self.records_per_batch else PLAIN_BYTES
        sizes = (self.value_bytes // 2, self.value_bytes * 3 // 2) if self.is_varied else (self.value_bytes,) * 2
        return [chance.randbytes(chance.randint(*sizes) // 2).hex().encode() for _ in range(total // self.value_bytes)]


DECODING = (
    Case("100 B", 100, at_least(1.5)),
    Case("100 B, sizes vary", 100, at_least(1.5), is_varied=True),
    Case("100 B, 10 in a batch", 100, records_per_batch=10),
    Case("100 B, 1 in a batch", 100, records_per_batch=1),
    Case("1 KiB", 1024, at_least(1900)),
    Case("1 KiB, sizes vary", 1024, is_varied=True),
    *(Case(f"1 KiB, {codec.name.lower()}", 1024, codec=codec) for codec in CODECS),
)
ENCODING = (
    Case("100 B", 100, at_least(1)),
    Case("1 KiB", 1024),
    *(Case(f"1 KiB, {codec.name.lower()}", 1024, codec=codec) for codec in CODECS),
)


def arrow(stage: Stage) -> Outcome:
    """By the CPU time of this process, so that what else runs on the machine matters little."""
    if importlib.util.find_spec("pyarrow") is None:
        raise BenchError("pyarrow is not installed; pip install 'headrace[spark]'")
    outcome = Outcome()
    for case in DECODING:
        _take(stage, outcome, f"Arrow decoder, {case.name}", case, _decoding(case))
    for case in ENCODING:
        _take(stage, outcome, f"Arrow encoder, {case.name}", case, _encoding(case))
    return outcome


def _take(stage: Stage, outcome: Outcome, name: str, case: Case, work: Callable[[], int]) -> None:
    stage.say(name)
    rounds = []
    for _ in range(stage.rounds(ROUNDS)):
        start_s = time.process_time()
        count = work()
        cpu_s = time.process_time() - start_s
        rounds.append(
            {"name": name, "m_per_s": count / cpu_s / 1e6, "mb_per_s": count * case.value_bytes / cpu_s / 1e6}
        )
    outcome.rounds += rounds
    records, values = median_of(rounds, "m_per_s"), median_of(rounds, "mb_per_s")
    if case.value_bytes < 1024:
        outcome.lines.append(Line(name, records, "M/s", case.target, remark=f"{values:,.0f} MB/s of values"))
    else:
        outcome.lines.append(Line(name, values, "MB/s", case.target, remark=f"{records:.2f} M records/s"))


def _decoding(case: Case) -> Callable[[], int]:
    from headrace_spark.codec.decoder import Columns, RangeDecoder  # noqa: PLC0415

    values = case.values()
    per_batch = case.records_per_batch or BATCH_BYTES // case.value_bytes
    answer = bytearray()
    for first in range(0, len(values), per_batch):
        records = [(START_MS + at // 10, None, value, ()) for at, value in enumerate(values[first : first + per_batch])]
        answer += encode_batch(records, base_offset=first, codec=case.codec)

    def decode() -> int:
        decoder = RangeDecoder("bench", 0, 0, len(values), Columns(), read_committed=True)
        return sum(rows.num_rows for rows in decoder.decode(answer))

    return decode


def _encoding(case: Case) -> Callable[[], int]:
    import pyarrow as pa  # noqa: PLC0415

    from headrace_spark.codec.encoder import encode  # noqa: PLC0415

    rows = pa.record_batch({"value": pa.array(case.values(), pa.binary())})

    def encode_all() -> int:
        batches = encode(rows, codec=case.codec, batch_bytes_max=BATCH_BYTES, now_ms=START_MS)
        return sum(batch.count for batch in batches)

    return encode_all
