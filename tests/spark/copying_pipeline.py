"""The copy of a topic as a pipeline's file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from tests.clients.commands import COMMAND
from tests.spark.copying_driver import EAGER_SPECULATION, MARK

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.copying_driver import CopySettings

SINK: Final = "copies"  # also the directory of its query in the checkpoint
FILE: Final = """
name = "copying"
[cluster]
bootstrap_servers = {bootstrap_servers}
[[source]]
name = "numbers"
topic = {source}
format = "raw"
metadata = ["_key"]
isolation = "read_committed"
records_per_batch_max = {batch_records}
[query]
sql = "SELECT _key AS key, concat('{mark}', CAST(value AS STRING)) AS value FROM numbers DISTRIBUTE BY _key"
[[sink]]
name = "{sink}"
topic = {target}
key = "key"
format = "text"
[run]
trigger = "available-now"
master = {master}
checkpoint = {checkpoint}
[spark.conf]
"""


def pipeline_command(settings: CopySettings, file: Path) -> list[str]:
    """Writes the file. The command takes over from a run that was killed and could not say so."""
    texts = {name: json.dumps(value) for name, value in vars(settings).items() if isinstance(value, str)}
    content = FILE.format(batch_records=settings.batch_records, mark=MARK, sink=SINK, **texts)
    conf = {**EAGER_SPECULATION, "spark.sql.shuffle.partitions": "4", **settings.conf}
    lines = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in conf.items()]
    file.write_text(content + "\n".join(lines) + "\n")
    return [*COMMAND, "pipeline", "run", str(file), "--take-over"]
