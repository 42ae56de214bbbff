"""What the file of an API says of rights: which it takes on what its requests name, and how a refusal is answered.

Each has one `RIGHTS`. The gate obeys them, a page of the documentation shows them, and a test asks for each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from headrace.access.operations import CLUSTER, CLUSTER_NAME, Operation, Resource, ResourceType
from headrace.metadata.configs.config_keys import ResourceKind
from headrace.model.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from headrace.access.identity import Identity
    from headrace.metadata.configs.settings import NodeSettings
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.model.names import TopicId

NEWEST: Final = 32_767
ITSELF: Final = ""
"""What is asked about is the name."""
ANY_OF_ITS_KIND: Final = "*"
"""The right on one name is enough, whichever."""

CODES: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}

Answer = TypeVar("Answer")


class Right(NamedTuple):
    operation: Operation
    kind: ResourceType = ResourceType.CLUSTER
    name: str = ITSELF
    """The field that names it. Where that is null, nothing is asked; where it is a list, the right is taken on each."""
    or_on_cluster: Operation | None = None
    """What is enough as well, for all names."""
    since: int = 0
    until: int = NEWEST
    """Versions of the API in which it is asked for."""

    @property
    def code(self) -> ErrorCode:
        """What somebody is told who has it not."""
        return CODES[ResourceType.CLUSTER if self.name == ANY_OF_ITS_KIND else self.kind]

    def resources(self, thing: Any) -> Iterable[Resource]:
        """What it is asked for on, of a request or of something in it."""
        if self.kind is ResourceType.CLUSTER:
            return (CLUSTER,)
        named = getattr(thing, self.name) if self.name else thing
        if named is None:
            return ()
        return [Resource(self.kind, name) for name in ([named] if isinstance(named, str) else named)]


class Scene(Protocol):
    """What a choice between rights may look at besides the request."""

    @property
    def image(self) -> ClusterImage: ...

    @property
    def settings(self) -> NodeSettings: ...


class Choice(NamedTuple):
    """Which rights are taken depends on what is asked for. `choose` gets the request, and of what it lists the one."""

    among: tuple[Right, ...]
    choose: Callable[[Any, Any, Scene], Sequence[Right]]


class Each(NamedTuple):
    """Of what a request lists, the handler gets what is allowed; the rest is refused beside its answers."""

    items: str
    """The field of the request."""
    answers: str
    """The field of the answer."""
    refused: Callable[[Any, Refusal], Any]
    """How one of them is answered that is refused."""
    right: Right | Choice | None = None
    """None: they are refused as one, with the request."""
    inside: Each | None = None
    """What each of them lists in turn."""
    all: Callable[[Scene], list[Any]] | None = None
    """What is meant where none is named. What is refused of that is left out."""
    is_all_or_nothing: bool = False
    """Where one is refused, nothing is attempted of the others."""
    tells_more: bool = False
    """The answer holds more than theirs: it is asked for even if all of them are refused."""
    since: int = 0
    until: int = NEWEST


class Listed(NamedTuple):
    """What an answer lists unasked: names that somebody may not see are left out."""

    path: tuple[str, ...]
    """The fields that lead there."""
    right: Right


class Told(NamedTuple):
    """Where an answer says what may be done: less of it, if less is allowed."""

    path: tuple[str, ...]
    """The fields that lead to those that say it; none: the answer says it of the cluster."""
    field: str
    kind: ResourceType = ResourceType.CLUSTER
    name: str = ITSELF


class Caller(Protocol):
    """Who asked, for what has to be looked at in an answer."""

    identity: Identity

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool: ...

    def topic_name(self, topic_id: TopicId) -> str | None:
        """None if this node knows no such topic."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    whole: tuple[Right | Choice, ...] = ()
    """Taken for the request as one, in this order."""
    each: tuple[Each, ...] = ()
    refused: Callable[[Any, Any, Refusal], Any] | None = None
    """The answer, from the message, the request and why: where the request as one is refused. Without it, what it
    lists is refused one by one."""
    listed: tuple[Listed, ...] = ()
    told: tuple[Told, ...] = ()
    after: Callable[[Any, Caller], Iterator[None]] | None = None
    """Takes out of an answer what else may not be seen, in steps that are worth a look at the clock."""
    seen: tuple[Right, ...] = ()
    """What that asks for."""
    inside: tuple[Right, ...] = ()
    """Asked where the request is served, since nobody reads it before as a whole."""
    nothing: str = ""
    """Why there is nothing to ask for."""

    def __post_init__(self) -> None:
        takes = self.whole or self.each or self.listed or self.told or self.inside
        assert bool(takes) != bool(self.nothing), "it takes something, or says why it does not"


def open_to_all(why: str) -> Rights:
    return Rights(nothing=why)


def error_of(answer: Callable[..., Answer]) -> Callable[[Any, Any, Refusal], Answer]:
    """For answers that have one error, and nothing to say why."""
    return lambda _message, _request, refusal: answer(error_code=refusal.code)


def words_of(answer: Callable[..., Answer]) -> Callable[[Any, Any, Refusal], Answer]:
    """For answers that have one error, and words for it."""
    return lambda _message, _request, refusal: answer(error_code=refusal.code, error_message=refusal.message)


def right_on_configs(operation: Operation) -> Choice:
    """Settings of nodes are the cluster's."""
    cluster = on_cluster(operation)
    kinds = {
        ResourceKind.TOPIC: Right(operation, ResourceType.TOPIC, "resource_name"),
        ResourceKind.GROUP: Right(operation, ResourceType.GROUP, "resource_name"),
    }
    return Choice((*kinds.values(), cluster), lambda _, resource, __: (kinds.get(resource.resource_type, cluster),))


def on_cluster(operation: Operation, *, since: int = 0, until: int = NEWEST) -> Right:
    return Right(operation, ResourceType.CLUSTER, CLUSTER_NAME, since=since, until=until)
