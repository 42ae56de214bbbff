"""Types of options whose numbers travel to a node: what no field can hold is refused before anything is sent."""

from __future__ import annotations

import click

from headrace.model.names import NODE_ID_MAX

INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

node_number = click.IntRange(0, NODE_ID_MAX)
partition_number = click.IntRange(0, INT32_MAX)
partition_count = click.IntRange(1, INT32_MAX)
copy_count = click.IntRange(1, INT16_MAX)
offset_number = click.IntRange(0, INT64_MAX)
producer_number = click.IntRange(0, INT64_MAX)
record_count = click.IntRange(1, INT32_MAX)
batch_size = click.IntRange(1, INT32_MAX)
timeout_ms = click.IntRange(1, INT32_MAX)
