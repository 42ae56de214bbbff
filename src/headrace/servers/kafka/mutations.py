"""Between a connection and a handler that creates or deletes partitions: how many of them a client may in a second.

As in KIP-599: whoever asks in a newer version is refused what is too much, topic by topic, and tries again; older
clients get what they ask for, and wait afterwards. Rates are a node's own, as all are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.model.errors import ErrorCode
from headrace.wire.api import ApiKey
from headrace.wire.messages.create_partitions import CreatePartitionsTopicResult
from headrace.wire.messages.create_topics import CreatableTopicResult
from headrace.wire.messages.delete_topics import DeletableTopicResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.broker.access.client_quotas import ClientUsage
    from headrace.broker.metadata.view import MetadataView
    from headrace.servers.kafka.interfaces import Request

TOLD: Final = "too many partitions were created or deleted (controller_mutation_rate); try again a little later"
DELETED_BY_ID_FROM: Final = 6


class _Mutation(NamedTuple):
    """One API, as far as it is about numbers of partitions."""

    strict_from: int
    """The first version whose clients know THROTTLING_QUOTA_EXCEEDED."""
    asked_in: Callable[[int], str]
    """The field with the message's topics, in each version."""
    size: Callable[[Any, MetadataView], int]
    refused: Callable[[Any], Any]
    """A topic's place in the answer."""
    results: Callable[[Any], list[Any]]


def within_mutation_quota(
    key: ApiKey, handle: Callable[[Any, Request], Any], view: MetadataView
) -> Callable[[Any, Request], Any]:
    """The handler itself, if its API neither creates nor deletes partitions."""
    mutation = _MUTATIONS.get(key)
    if mutation is None:
        return handle

    def handle_within_quota(message: Any, request: Request) -> Any:
        usage = request.connection.meter.usage_of(request)
        if usage is None or not usage.has_mutations or getattr(message, "validate_only", False):
            return handle(message, request)
        return _counted(mutation, handle, message, request, usage, view)

    return handle_within_quota


def created_within_quota(names: list[str], request: Request, view: MetadataView) -> list[str]:
    """Topics that are created because somebody asks for them: as many as may be. Who asks again gets the next ones."""
    usage = request.connection.meter.usage_of(request) if names else None
    if usage is None or not usage.has_mutations:
        return names
    let_in = []
    for name in names:
        if usage.mutations_owed_s() > 0:
            break
        usage.mutated(view.settings.num_partitions)
        let_in.append(name)
    return let_in


async def _counted(
    mutation: _Mutation,
    handle: Callable[[Any, Request], Any],
    message: Any,
    request: Request,
    usage: ClientUsage,
    view: MetadataView,
) -> Any:
    field = mutation.asked_in(request.version)
    is_strict = request.version >= mutation.strict_from
    let_in, refused = [], []
    sizes: Counter[Any] = Counter()
    for topic in getattr(message, field):
        if is_strict and usage.mutations_owed_s() > 0:
            refused.append(mutation.refused(topic))
            continue
        size = max(mutation.size(topic, view), 0)
        usage.mutated(size)
        sizes[_name(topic)] += size
        let_in.append(topic)
    outcome = handle(replace(message, **{field: let_in}), request)
    answer = await outcome if isawaitable(outcome) else outcome
    results = mutation.results(answer)
    for result in results:
        if result.error_code:
            usage.mutated(-sizes.pop(_name(result), 0))
    results += refused
    answer.throttle_time_ms = max(answer.throttle_time_ms, int(usage.mutations_owed_s() * 1000))
    return answer


def _name(topic: Any) -> Any:
    if isinstance(topic, str):
        return topic
    return topic.name or topic.topic_id


def _created(topic: Any, view: MetadataView) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return int(topic.num_partitions) if topic.num_partitions > 0 else view.settings.num_partitions


def _grown(topic: Any, view: MetadataView) -> int:
    known = view.image.topic_named(topic.name)
    return 0 if known is None else topic.count - known.partition_count


def _deleted(topic: Any, view: MetadataView) -> int:
    name = topic if isinstance(topic, str) else topic.name
    known = view.image.topic_named(name) if name else view.image.topic(topic.topic_id)
    return 0 if known is None else known.partition_count


def _not_created(topic: Any) -> CreatableTopicResult:
    return CreatableTopicResult(topic.name, error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED, error_message=TOLD)


def _not_grown(topic: Any) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(topic.name, ErrorCode.THROTTLING_QUOTA_EXCEEDED, TOLD)


def _not_deleted(topic: Any) -> DeletableTopicResult:
    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    if isinstance(topic, str):
        return DeletableTopicResult(topic, error_code=code, error_message=TOLD)
    return DeletableTopicResult(topic.name, topic.topic_id, code, TOLD)


_MUTATIONS: Final = {
    ApiKey.CREATE_TOPICS: _Mutation(6, lambda _: "topics", _created, _not_created, lambda answer: answer.topics),
    ApiKey.CREATE_PARTITIONS: _Mutation(3, lambda _: "topics", _grown, _not_grown, lambda answer: answer.results),
    ApiKey.DELETE_TOPICS: _Mutation(
        5,
        lambda version: "topics" if version >= DELETED_BY_ID_FROM else "topic_names",
        _deleted,
        _not_deleted,
        lambda answer: answer.responses,
    ),
}
