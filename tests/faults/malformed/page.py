"""docs/malformed-batches.md, made of the catalogue, a node's answers and what is kept of Apache Kafka's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode
from tests.faults.malformed.asking import Answer, cases, load, name_of
from tests.faults.malformed.catalogue import KINDS, SECTIONS
from tests.faults.malformed.consuming import READ
from tests.faults.malformed.forge import PACKINGS, SNAPPY, SNAPPY_RAW, STREAMS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.faults.malformed.forge import Packing
    from tests.faults.malformed.kinds import Kind, Section

PAGE = Path(__file__).parents[3] / "docs" / "malformed-batches.md"
KAFKA_ANSWERS = Path(__file__).with_name("kafka_4_3_1.json")

HEAD = """# Malformed batches

<!-- Written by tools/write_malformed_page.py from tests/faults/malformed; do not edit. -->

What a node answers to record batches that are not as they should be, and what Apache Kafka 4.3.1 answers to the same
bytes. A batch that is refused leaves nothing behind: the end of its partition does not move, and the next sound batch
is taken. A batch that is taken, however odd, has records that every consumer can find. What is in them is theirs: keys
of headers that are not UTF-8 are taken, as Kafka takes them, and a library that makes text of them fails there:
confluent-kafka's `headers()` raises an error.

A test sends {kinds} kinds, {cases} batches in all, to a node and compares each answer with this page. Kafka's answers
are kept; to ask a fresh Kafka again: `python -m tools.ask_malformed PORT --keep`.

- Each batch has one fault, and a CRC that fits it. Topics have the default settings unless the row says more.
- *all* codecs are none, gzip, snappy, lz4 and zstd; *compressed* are all but none. Snappy is sent framed, as Java does
  it, and raw; the table tells them apart where the answers differ.
- *taken, unreadable*: the batch is acknowledged, and librdkafka's consumer does not get its records as they were sent:
  it fails, never gets past them, or is handed other offsets.
"""


def page(answers: Mapping[str, Answer], kafka: Mapping[str, Answer]) -> str:
    count = sum(1 for _ in cases())
    parts = [HEAD.format(kinds=len(KINDS), cases=count)]
    parts += [_section(section, answers, kafka) for section in SECTIONS]
    return "\n".join(parts)


def expected() -> dict[str, Answer]:
    """What the catalogue says that a node answers."""
    return {name_of(kind, packing): Answer(kind.code_for(packing)) for kind, packing, _ in cases()}


def kept() -> dict[str, Answer]:
    return load(KAFKA_ANSWERS)


def _section(section: Section, answers: Mapping[str, Answer], kafka: Mapping[str, Answer]) -> str:
    rows = [f"## {section.title}", "", "| What | Codecs | Headrace | Apache Kafka 4.3.1 |", "|---|---|---|---|"]
    for kind in section.kinds:
        rows += _rows(kind, answers, kafka)
    return "\n".join((*rows, ""))


def _rows(kind: Kind, answers: Mapping[str, Answer], kafka: Mapping[str, Answer]) -> list[str]:
    """One for all packings that are answered alike."""
    alike: dict[tuple[str, str], list[Packing]] = {}
    for packing in kind.packings:
        name = name_of(kind, packing)
        alike.setdefault((_told(answers[name]), _told(kafka[name])), []).append(packing)
    return [f"| {kind.what} | {_named(packings)} | {ours} | {theirs} |" for (ours, theirs), packings in alike.items()]


def _told(answer: Answer) -> str:
    if answer.code is None:
        return answer.message or ""
    if answer.is_taken:
        return "taken" if answer.consumed in {None, READ} else "taken, unreadable"
    return f"{answer.code} {ErrorCode(answer.code).name}"


def _named(packings: Sequence[Packing]) -> str:
    if list(packings) == list(PACKINGS):
        return "all"
    if list(packings) == list(STREAMS):
        return "compressed"
    is_both = SNAPPY in packings and SNAPPY_RAW in packings
    names = {SNAPPY: "snappy" if is_both else "snappy, framed", SNAPPY_RAW: "" if is_both else "snappy, raw"}
    return "; ".join(filter(None, (names.get(packing, packing.name) for packing in packings)))
