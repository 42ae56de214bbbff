"""The one place that asks, before any handler runs, whether somebody may do what a request asks for.

It takes out of a request what is refused, lets the handler have the rest, and puts the refusals into its answer, in the
request's order. What an API takes is in its own file: see `rights`.
"""

from __future__ import annotations

from dataclasses import replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.access.audit import AuditEvent, Outcome
from headrace.access.operations import CLUSTER_NAME, Operation, Resource, ResourceType
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import NO_TOPIC_ID, topic_id_text
from headrace.runtime.tasks import Breather
from headrace.servers.kafka.authorized_operations import NOT_ASKED_FOR
from headrace.servers.kafka.rights import ANY_OF_ITS_KIND, Choice, Right
from headrace.wire.api import APIS, ApiKey, response_class

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Sequence

    from headrace.access.audit import AuditSink
    from headrace.access.identity import Identity
    from headrace.broker.access.authorizer import Authorizer
    from headrace.broker.metadata.view import MetadataView
    from headrace.metadata.configs.settings import NodeSettings
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.model.names import TopicId
    from headrace.runtime.clock import Clock
    from headrace.servers.kafka.interfaces import Request
    from headrace.servers.kafka.rights import Each, Listed, Rights, Told

    Handle = Callable[[Any, Request], Any]
    T = TypeVar("T")
    Steps = Generator[None, None, T]
    """Each is worth a look at the clock."""

AT_ONCE: Final = 100  # things that are asked about in one turn: up to 20 µs for each that was not asked about before
NOTED_MAX: Final = 20  # refusals of one request that the audit notes one by one
IN_WORDS_MAX: Final = 1000  # of one request that are explained: an answer must not be many times as large
TEXT_MAX: Final = 300  # characters; a name may have 32,767


class Gate:
    """Of one listener for clients, on a node that obeys rules."""

    def __init__(self, authorizer: Authorizer, view: MetadataView, audit: AuditSink, clock: Clock) -> None:
        self.authorizer = authorizer
        self.clock = clock
        self._view = view
        self._audit = audit

    @property
    def image(self) -> ClusterImage:
        return self._view.image

    @property
    def settings(self) -> NodeSettings:
        return self._view.settings

    def before(self, key: ApiKey, rights: Rights, handle: Handle) -> Handle:
        """The handler, behind the gate."""
        if rights.nothing or rights.inside:
            return handle

        def judge_and_handle(message: Any, request: Request) -> Any:
            case = _Case(self, key, rights, message, request)
            if case.size > AT_ONCE:
                return self._handle_slowly(case, handle)
            _run(case.judge())
            if case.answer is not None:
                return self._refused(case)
            outcome = handle(case.message, request)
            if isawaitable(outcome):
                return self._finish_later(case, outcome)
            return self._finish_later(case, _ready(outcome)) if case.is_wide(outcome) else self._finished(case, outcome)

        return judge_and_handle

    async def _handle_slowly(self, case: _Case, handle: Handle) -> Any:
        await self._run_slowly(case.judge())
        if case.answer is not None:
            return self._refused(case)
        outcome = handle(case.message, case.request)
        return await self._finish_later(case, outcome if isawaitable(outcome) else _ready(outcome))

    async def _finish_later(self, case: _Case, outcome: Awaitable[Any]) -> Any:
        self._note(case)
        answer = await outcome
        await self._run_slowly(case.finish(answer))
        return answer

    def _finished(self, case: _Case, answer: Any) -> Any:
        self._note(case)
        _run(case.finish(answer))
        return answer

    def _refused(self, case: _Case) -> Any:
        self._note(case)
        return case.answer

    async def _run_slowly(self, steps: Iterator[None]) -> None:
        breather = Breather(self.clock)
        for _ in steps:
            await breather.breathe()

    def _note(self, case: _Case) -> None:
        for text in case.noted[:NOTED_MAX]:
            self._audit.note(case.event(*text))
        more = case.noted_count - NOTED_MAX
        if more > 0:
            self._audit.note(case.event(f"{more} more", ""))


class _Case:
    """One request, and what of it is allowed."""

    def __init__(self, gate: Gate, key: ApiKey, rights: Rights, message: Any, request: Request) -> None:
        self.message = message
        """What is left of it for the handler."""
        self.request = request
        self.answer: Any = None
        """Present if the handler is not needed."""
        self.noted: list[tuple[str, str]] = []
        self.noted_count = 0
        self.identity: Identity = request.connection.identity
        self._gate = gate
        self._key = key
        self._rights = rights
        self._each = [each for each in rights.each if each.since <= request.version <= each.until]
        self._refused_among: list[tuple[Each, list[Any]]] = []
        """Of each list some of which is refused: the refusals, and None in the places of the others."""
        self._refused_inside: dict[str, list[Any]] = {}

    @property
    def size(self) -> int:
        """How many things may have to be asked about."""
        named = (getattr(self.message, asked.name, ()) for asked in self._rights.whole if isinstance(asked, Right))
        return sum(map(self._size_of, self._each)) + sum(len(names) for names in named if isinstance(names, list))

    def _size_of(self, each: Each) -> int:
        items = getattr(self.message, each.items) or ()
        if each.inside is not None:
            return sum(1 + len(getattr(item, each.inside.items) or ()) for item in items)
        return len(items) or (each.all is not None) * len(self._gate.image.topics)

    def is_wide(self, answer: Any) -> bool:
        return any(len(found) > AT_ONCE for listed in self._rights.listed for _, found in _lists(answer, listed.path))

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        return self._gate.authorizer.allows(self.identity, operation, kind, name)

    def topic_name(self, topic_id: TopicId) -> str | None:
        return self._gate.authorizer.topic_of(topic_id)

    def event(self, resource: str, detail: str) -> AuditEvent:
        return AuditEvent(
            APIS[self._key].name, self.identity, Outcome.REFUSED, resource, detail, self.request.client_id
        )

    # ---- before the handler

    def judge(self) -> Iterator[None]:
        refusal = yield from self._refusal(self._rights.whole, self.message)
        if refusal is not None:
            self._refuse_whole(refusal)
            return
        for each in self._each:
            if each.right is not None and self.answer is None:
                yield from self._judge_each(each)

    def _refuse_whole(self, refusal: Refusal) -> None:
        if self._rights.refused is not None:
            self.answer = self._rights.refused(self.message, self.request, refusal)
            return
        self.answer = response_class(self._key)()
        for each in self._each:
            answers = [each.refused(item, refusal) for item in getattr(self.message, each.items) or ()]
            setattr(self.answer, each.answers, answers)

    def _judge_each(self, each: Each) -> Iterator[None]:
        items: Sequence[Any] = getattr(self.message, each.items) or ()
        assert each.right is not None
        if each.all is not None and not items:
            yield from self._name_all(each, each.all(self._gate))
            return
        kept, refused = [], []
        for item in items:
            refusal = yield from self._refusal((each.right,), item)
            if refusal is None:
                kept.append((yield from self._judged_inside(each, item)))
            refused.append(None if refusal is None else each.refused(item, refusal))
        if len(kept) == len(items) and each.inside is None:
            return
        if each.is_all_or_nothing and len(kept) < len(items):
            unattempted = Refusal(ErrorCode.OPERATION_NOT_ATTEMPTED, "another topic of the request is refused")
            refused = [
                each.refused(item, unattempted) if it is None else it for item, it in zip(items, refused, strict=True)
            ]
            kept = []
        self._refused_among.append((each, refused))
        if kept or each.tells_more or not items:
            self.message = replace(self.message, **{each.items: kept if items else getattr(self.message, each.items)})
        else:
            self.answer = response_class(self._key)()
            setattr(self.answer, each.answers, refused)

    def _name_all(self, each: Each, items: Sequence[Any]) -> Iterator[None]:
        assert isinstance(each.right, Right)
        verdicts = self._gate.authorizer.verdicts(self.identity, each.right.operation, each.right.kind)
        kept = []
        for item in items:
            if verdicts.allows(getattr(item, each.right.name)):
                kept.append(item)
            yield
        if kept:
            self.message = replace(self.message, **{each.items: kept})
        else:
            self.answer = response_class(self._key)()

    def _judged_inside(self, each: Each, item: Any) -> Steps[Any]:
        """The item without what is refused of what it lists."""
        inside = each.inside
        listed = None if inside is None else getattr(item, inside.items)
        if inside is None or inside.right is None or not listed:
            return item
        kept = []
        for one in listed:
            refusal = yield from self._refusal((inside.right,), one)
            if refusal is None:
                kept.append(one)
            else:
                assert isinstance(each.right, Right)
                name = getattr(item, each.right.name)
                self._refused_inside.setdefault(name, []).append(inside.refused(one, refusal))
        return replace(item, **{inside.items: kept})

    def _refusal(self, rights: Iterable[Right | Choice], thing: Any) -> Steps[Refusal | None]:
        """Of the first right that is missing."""
        for asked in rights:
            chosen = asked.choose(self.message, thing, self._gate) if isinstance(asked, Choice) else (asked,)
            for right in chosen:
                if right.since <= self.request.version <= right.until:
                    refusal = yield from self._missing(right, thing)
                    if refusal is not None:
                        return refusal
        return None

    def _missing(self, right: Right, thing: Any) -> Steps[Refusal | None]:
        yield
        topic_id = getattr(thing, "topic_id", NO_TOPIC_ID)
        if right.kind is ResourceType.TOPIC and topic_id != NO_TOPIC_ID:
            return self._missing_by_id(right, topic_id)
        if right.name == ANY_OF_ITS_KIND:
            is_allowed = self._gate.authorizer.allows_on_some(self.identity, right.operation, right.kind)
            return None if is_allowed or self._is_enough(right) else self._refuse(right, Resource(right.kind, "*"))
        for resource in right.resources(thing):
            if not self.may(right.operation, *resource) and not self._is_enough(right):
                return self._refuse(right, resource)
            yield
        return None

    def _missing_by_id(self, right: Right, topic_id: TopicId) -> Refusal | None:
        """What this node does not know yet another one may: nobody gets through by an id that is not known here."""
        topic = self._gate.image.topic(topic_id)
        if topic is None:
            return Refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with the id {topic_id_text(topic_id)}")
        if self.may(right.operation, ResourceType.TOPIC, topic.name) or self._is_enough(right):
            return None
        return self._refuse(right, Resource(right.kind, topic.name), shown=f"the topic {topic_id_text(topic_id)}")

    def _is_enough(self, right: Right) -> bool:
        """What is allowed on the cluster."""
        other = right.or_on_cluster
        return other is not None and self.may(other, ResourceType.CLUSTER, CLUSTER_NAME)

    def _refuse(self, right: Right, resource: Resource, shown: str = "") -> Refusal:
        self.noted_count += 1
        if self.noted_count <= NOTED_MAX:
            self.noted.append((str(resource), f"it takes {right.operation.name}"))
        if self.noted_count > IN_WORDS_MAX:
            return Refusal(right.code, "")
        what = f"{right.operation.name} {shown or resource}"[:TEXT_MAX]
        who = f"{self.identity.principal} from {self.identity.host}"
        return Refusal(right.code, f"{who} may not {what}: no access rule allows it, or one denies it")

    # ---- after it

    def finish(self, answer: Any) -> Iterator[None]:
        for listed in self._rights.listed:
            yield from self._leave_out(answer, listed)
        for told in self._rights.told:
            yield from self._tell_less(answer, told)
        if self._rights.after is not None:
            yield from self._rights.after(answer, self)
        for each, refused in self._refused_among:
            self._put_in(answer, each, refused)

    def _leave_out(self, answer: Any, listed: Listed) -> Iterator[None]:
        right = listed.right
        if self._is_enough(right):
            return
        verdicts = self._gate.authorizer.verdicts(self.identity, right.operation, right.kind)
        for owner, found in _lists(answer, listed.path):
            kept = []
            for item in found:
                name = getattr(item, right.name)
                if name is None or verdicts.allows(name):
                    kept.append(item)
                yield
            setattr(owner, listed.path[-1], kept)

    def _tell_less(self, answer: Any, told: Told) -> Iterator[None]:
        owners = (answer,) if not told.path else (item for _, found in _lists(answer, told.path) for item in found)
        for owner in owners:
            bits = getattr(owner, told.field)
            if bits != NOT_ASKED_FOR:
                name = getattr(owner, told.name) if told.name else CLUSTER_NAME
                allowed = self._gate.authorizer.allowed_bits(self.identity, told.kind, name or "", bits)
                setattr(owner, told.field, allowed)
                yield

    def _put_in(self, answer: Any, each: Each, refused: Sequence[Any]) -> None:
        """In the request's order. A handler that answers once for what was named twice has all of its answers first."""
        answered = list(getattr(answer, each.answers))
        if each.tells_more and not refused.count(None):
            answered = []  # there was nothing left to ask for, which may mean everything
        if each.inside is not None and isinstance(each.right, Right):
            for item in answered:
                more = self._refused_inside.get(getattr(item, each.right.name), ())
                if not item.error_code:
                    setattr(item, each.inside.answers, [*getattr(item, each.inside.answers), *more])
        if len(answered) == refused.count(None):
            allowed = iter(answered)
            merged = [next(allowed) if it is None else it for it in refused]
        else:
            merged = [*answered, *(it for it in refused if it is not None)]
        setattr(answer, each.answers, merged)


def _lists(answer: Any, path: tuple[str, ...]) -> Iterator[tuple[Any, list[Any]]]:
    """The lists that the fields lead to, each with what it belongs to."""
    *outer, last = path
    owners = [answer]
    for field in outer:
        owners = [item for owner in owners for item in getattr(owner, field) or ()]
    for owner in owners:
        found = getattr(owner, last)
        if found:
            yield owner, found


def _run(steps: Iterator[None]) -> None:
    for _ in steps:
        pass


async def _ready(answer: Any) -> Any:
    return answer
