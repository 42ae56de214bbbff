"""The topics that a pipeline writes to are made if they are missing, with as many partitions as the cluster gives.

Nobody thinks of the topic for dead letters before the first one comes. Then it is too late to ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.client.admin.admin import Admin
from headrace.model.errors import ErrorCode, Refusal
from headrace_spark.pipeline.file.spec import TopicSink

if TYPE_CHECKING:
    from headrace_spark.pipeline.file.spec import Pipeline


def make_topics(pipeline: Pipeline) -> None:
    """Create those that are missing: every sink's, and that of the dead letters. Raises Refusal or ClientError."""
    wanted = {sink.topic for sink in pipeline.sinks if isinstance(sink, TopicSink)} | {pipeline.dead_letters.topic}
    with pipeline.cluster.connect() as client:
        admin = Admin(client.cluster)
        there = {topic.name for topic in client.run(admin.list_topics())}
        for topic in sorted(wanted - there):
            try:
                client.run(admin.create_topic(topic))
            except Refusal as refusal:
                if refusal.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
