"""Every kind of malformed batch that a node is tried with, in the order of the page."""

from __future__ import annotations

from tests.faults.malformed.header_kinds import FRAMES, HEADERS, PRODUCERS, TIMES
from tests.faults.malformed.record_kinds import COUNTS, FIELDS, TOPICS
from tests.faults.malformed.stream_kinds import ANY, GZIPS, LZ4S, SNAPPIES, ZSTDS

SECTIONS = (FRAMES, HEADERS, PRODUCERS, TIMES, COUNTS, FIELDS, TOPICS, ANY, GZIPS, SNAPPIES, LZ4S, ZSTDS)
KINDS = tuple(kind for section in SECTIONS for kind in section.kinds)
