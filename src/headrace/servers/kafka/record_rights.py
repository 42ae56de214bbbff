"""What a connection may do with records. Produce and Fetch are not read as a whole before they are
served, and ask for each topic where they look it up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.access.audit import AuditEvent, Outcome
from headrace.access.operations import Operation, Resource, ResourceType
from headrace.model.errors import Refusal
from headrace.servers.kafka.rights import CODES

if TYPE_CHECKING:
    from headrace.access.audit import AuditSink
    from headrace.access.identity import Identity
    from headrace.broker.access.authorizer import Authorizer


class RecordRights:
    """Of one identity, on a node that obeys rules."""

    def __init__(self, authorizer: Authorizer, audit: AuditSink, identity: Identity) -> None:
        self.identity = identity
        self._authorizer = authorizer
        self._audit = audit
        self._readable = authorizer.verdicts(identity, Operation.READ, ResourceType.TOPIC)
        writable = authorizer.verdicts(identity, Operation.WRITE, ResourceType.TOPIC)
        self.is_known_writable = writable.known.get
        """By a topic's name, or its id: what most requests need, and one look into a dict. None: ask `may_write`."""
        self.may_write = writable.allows
        self.may_read = self._readable.allows

    @property
    def generation(self) -> int:
        """Another one whenever what may be read may have changed."""
        return self._authorizer.generation

    def may_use(self, transactional_id: str) -> bool:
        kind = ResourceType.TRANSACTIONAL_ID
        return self._authorizer.allows(self.identity, Operation.WRITE, kind, transactional_id)

    def no_write(self, topic: str | bytes) -> Refusal:
        return self._refused("Produce", Operation.WRITE, ResourceType.TOPIC, self._name(topic), topic)

    def no_use(self, transactional_id: str) -> Refusal:
        kind = ResourceType.TRANSACTIONAL_ID
        return self._refused("Produce", Operation.WRITE, kind, transactional_id, transactional_id)

    def no_transaction(self) -> Refusal:
        """Records of a transaction that is not named: they could go into anybody's that is open here."""
        words = "records of a transaction without its transactional id"
        kind = ResourceType.TRANSACTIONAL_ID
        self._audit.note(AuditEvent("Produce", self.identity, Outcome.REFUSED, str(Resource(kind, "")), words))
        return Refusal(CODES[kind], "records of a transaction come with its transactional id, which takes WRITE on it")

    def no_read(self, topic: str | bytes) -> Refusal:
        return self._refused("Fetch", Operation.READ, ResourceType.TOPIC, self._name(topic), topic)

    def _name(self, topic: str | bytes) -> str:
        return topic if isinstance(topic, str) else self._authorizer.topic_of(topic) or topic.hex()

    def _refused(self, action: str, operation: Operation, kind: ResourceType, name: str, named: str | bytes) -> Refusal:
        """Noted. Whoever names a topic by its id does not hear its name."""
        words = f"it takes {operation.name}"
        self._audit.note(AuditEvent(action, self.identity, Outcome.REFUSED, str(Resource(kind, name)), words))
        shown = Resource(kind, named if isinstance(named, str) else named.hex())
        principal, host = self.identity
        return Refusal(CODES[kind], f"{principal} from {host} may not {operation.name} {shown}")
