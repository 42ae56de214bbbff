"""The moment in which a kill does the most harm: while a batch is being published.

That takes a small part of a batch's time, so kills at random moments miss it.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

from headrace.client.admin.transactions import TransactionAdmin
from headrace.client.connections.cluster import ClusterSettings
from headrace.client.errors import ClientError
from headrace.model.errors import Refusal
from headrace_spark.blocking import BlockingCluster
from headrace_spark.sink.staging_names import ID_PREFIX

if TYPE_CHECKING:
    from pathlib import Path

POLL_S: Final = 0.002
OPEN_STATES: Final = {"Ongoing", "PrepareCommit", "PrepareAbort"}
_SETTINGS: Final = ClusterSettings(retry_for_s=1.0, reach_for_s=1.0)


def transactional_id_of(checkpoint: Path, pipeline_topic: str | None = None) -> str:
    """Of the query that has this checkpoint. A pipeline's sink has its topic in it, too."""
    query_id = json.loads((checkpoint / "metadata").read_text())["id"]
    return f"{ID_PREFIX}{query_id}" if pipeline_topic is None else f"{ID_PREFIX}{pipeline_topic}:{query_id}"


def wait_for_publishing(bootstrap_servers: str, transactional_id: str, timeout_s: float) -> bool:
    """Until the query's transaction is open. False if that did not happen, or the node does not answer."""
    deadline_s = time.monotonic() + timeout_s
    try:
        with BlockingCluster(bootstrap_servers, _SETTINGS) as blocking:
            admin = TransactionAdmin(blocking.cluster)
            while time.monotonic() < deadline_s:
                if blocking.run(admin.describe(transactional_id)).state in OPEN_STATES:
                    return True
                time.sleep(POLL_S)
    except (ClientError, Refusal):
        return False
    return False
