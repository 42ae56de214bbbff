"""What somebody may do, as the rules say that this node has: compiled, and remembered until they change."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from headrace.access.identity import parse_principals
from headrace.access.operations import CLUSTER_NAME, Operation, ResourceType
from headrace.access.rules.compiled import UNLIKELY_NAME, CompiledRules
from headrace.metadata.image.cluster_image import EMPTY_IMAGE
from headrace.model.names import TopicId
from headrace.runtime.tasks import Breather

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.access.identity import Identity
    from headrace.broker.metadata.view import MetadataView
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.metadata.image.records import MetadataRecord
    from headrace.runtime.clock import Clock
    from headrace.runtime.tasks import TaskScope

VERDICTS_MAX: Final = 200_000  # some 30 MB; whoever asks about more names than that has each looked up anew
ASKERS_MAX: Final = 20_000  # principal, host, operation and kind: more connections than a node takes do not ask at once
AT_ONCE: Final = 500  # rules that are compiled in the turn that brings them: a millisecond

_Asked = tuple["Identity", Operation, ResourceType]


class Verdicts:
    """On one operation of one identity: whether it is allowed, by the name of what it is on."""

    __slots__ = ("_authorizer", "_identity", "_kind", "_operation", "known")

    def __init__(self, authorizer: Authorizer, identity: Identity, operation: Operation, kind: ResourceType) -> None:
        self._authorizer = authorizer
        self._identity = identity
        self._operation = operation
        self._kind = kind
        self.known: dict[str | bytes, bool] = {}
        """As far as somebody has asked. Emptied by the authoriser when rules change, and always the same object. Topics
        also by id, which never comes to mean another one."""

    def allows(self, name: str | bytes) -> bool:
        verdict = self.known.get(name)
        return self._find(name) if verdict is None else verdict

    def forget(self) -> None:
        self.known.clear()

    def _find(self, name: str | bytes) -> bool:
        text = name if isinstance(name, str) else self._authorizer.topic_of(name)
        if text is None:
            return True  # there is no such topic: whoever looks it up next says so, as Kafka does of ids
        verdict = self._authorizer.decide(self._identity, self._operation, self._kind, text)
        self._authorizer.remember(self)
        self.known[name] = verdict
        return verdict


class Authorizer:
    """A `quorum.ImageListener`."""

    def __init__(self, view: MetadataView, clock: Clock, tasks: TaskScope) -> None:
        settings = view.settings
        self.is_on = bool(settings.authorizer_class_name)
        """Not while it runs: what is open and what is not should not change under anybody."""
        self._super_users = parse_principals(settings.super_users)
        self._allows_without_rule = settings.allow_everyone_if_no_acl_found
        self._view = view
        self._clock = clock
        self._tasks = tasks
        self._acls = EMPTY_IMAGE.access.acls
        """Those that `_rules` are."""
        self._rules = CompiledRules()
        self._compiled: asyncio.Event | None = None
        """Present while very many are being compiled."""
        self._verdicts: dict[_Asked, Verdicts] = {}
        self._on_some: dict[_Asked, bool] = {}
        self._remembering: dict[Verdicts, None] = {}
        """Those that know any: also the ones that nobody would be given any more, and that connections still have."""
        self._remembered = 0
        self.generation = 0
        """Another one whenever rules have changed: for whoever keeps something that was allowed."""

    # ---- questions

    def allows(self, identity: Identity, operation: Operation, kind: ResourceType, name: str) -> bool:
        return self.verdicts(identity, operation, kind).allows(name)

    def verdicts(self, identity: Identity, operation: Operation, kind: ResourceType) -> Verdicts:
        """To be kept by whoever asks often: they are of the rules in force, always."""
        asked = (identity, operation, kind)
        found = self._verdicts.get(asked)
        if found is None:
            if len(self._verdicts) >= ASKERS_MAX:
                self._verdicts.clear()
            found = self._verdicts[asked] = Verdicts(self, identity, operation, kind)
        return found

    def allows_on_some(self, identity: Identity, operation: Operation, kind: ResourceType) -> bool:
        """Whether there is any name for which it is allowed."""
        asked = (identity, operation, kind)
        known = self._on_some.get(asked)
        if known is None:
            if len(self._on_some) >= ASKERS_MAX:
                self._on_some.clear()
            known = self.decide(identity, operation, kind, UNLIKELY_NAME) or self._rules.allows_on_some(*asked)
            self._on_some[asked] = known
        return known

    def allowed_bits(self, identity: Identity, kind: ResourceType, name: str, among: int) -> int:
        """Which of the operations, each a bit, are allowed."""
        if not self.is_on:
            return among
        if kind is ResourceType.CLUSTER and not self.allows(identity, Operation.DESCRIBE, kind, CLUSTER_NAME):
            return 0  # as in Kafka: who may not look at it does not hear what else they may do
        asked = (operation for operation in Operation if among >> operation & 1)
        return sum(1 << operation for operation in asked if self.allows(identity, operation, kind, name))

    # ---- what verdicts are made from

    def decide(self, identity: Identity, operation: Operation, kind: ResourceType, name: str) -> bool:
        if not self.is_on or identity.principal in self._super_users:
            return True
        return self._rules.allows(identity, operation, kind, name, if_no_rule=self._allows_without_rule)

    def topic_of(self, topic_id: bytes) -> str | None:
        topic = self._view.image.topic(TopicId(topic_id))
        return None if topic is None else topic.name

    def remember(self, verdicts: Verdicts) -> None:
        """One more is about to be remembered."""
        if self._remembered >= VERDICTS_MAX:
            self._forget()
        self._remembered += 1
        self._remembering[verdicts] = None

    def _forget(self) -> None:
        for verdicts in self._remembering:
            verdicts.forget()
        self._remembering.clear()
        self._remembered = 0

    # ---- rules that change

    def committed(self, before: ClusterImage, records: Sequence[MetadataRecord]) -> None:  # noqa: ARG002
        self._look()

    def jumped(self, before: ClusterImage, after: ClusterImage) -> None:  # noqa: ARG002
        self._look()

    def _look(self) -> None:
        """The image may be another one. Few new rules are in force when this returns; very many are compiled in slices,
        and those before them are obeyed meanwhile."""
        if self.is_on and self._compiled is None and self._view.image.access.acls is not self._acls:
            if self._changed_count() <= AT_ONCE:
                self._change()
            else:
                self._compiled = asyncio.Event()
                self._tasks.start_if_open(self._compile(self._compiled), "compile access rules")

    async def caught_up(self) -> None:
        """Until the rules of the image are in force."""
        self._look()
        if self._compiled is not None:
            await self._compiled.wait()

    def _changed_count(self) -> int:
        """At least; what two maps share is not looked at."""
        acls = self._view.image.access.acls
        return abs(len(acls) - len(self._acls)) or sum(1 for _ in acls.keys_not_in(self._acls))

    def _change(self) -> None:
        before, self._acls = self._acls, self._view.image.access.acls
        for gone in list(before.keys_not_in(self._acls)):
            self._rules.remove(gone)
        for new in self._acls.keys_not_in(before):
            self._rules.add(new)
        self._in_force()

    async def _compile(self, done: asyncio.Event) -> None:
        breather = Breather(self._clock)
        try:
            while self._acls is not (acls := self._view.image.access.acls):
                rules = CompiledRules()
                for acl in acls:
                    rules.add(acl)
                    await breather.breathe()
                self._rules, self._acls = rules, acls
                self._in_force()
        finally:
            self._compiled = None
            done.set()

    def _in_force(self) -> None:
        self._forget()
        self._on_some.clear()
        self.generation += 1
