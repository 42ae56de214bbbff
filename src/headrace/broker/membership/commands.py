"""Commands about the cluster's metadata, as this node gives them: answered once it serves what was decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from headrace.metadata.decisions.decision import Outcome
from headrace.model.errors import ErrorCode, Refusal
from headrace.model.names import TopicId

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from headrace.broker.membership.controller_channel import ControllerChannel
    from headrace.broker.metadata.quorum import Quorum, Response
    from headrace.metadata.decisions.decision import Decision
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.runtime.world import World
    from headrace.wire.api import Message

Result = TypeVar("Result")
Answer = TypeVar("Answer", bound="Message")

ROOM_BYTES: Final = 1 << 20  # the first files of a hundred partitions


class Commands:
    def __init__(self, quorum: Quorum, channel: ControllerChannel, world: World) -> None:
        self._quorum = quorum
        self._channel = channel
        self._world = world
        self.served: Callable[[], Awaitable[None]] = _nothing_to_serve
        """Waits until this node serves all that is in its image by now. Set by whoever makes it do so."""

    @property
    def is_controller(self) -> bool:
        """Whether this node decides itself."""
        return self._quorum.is_leader

    async def submit(self, decide: Callable[[ClusterImage], Decision[Response]]) -> Response:
        """Decide, commit, and wait until this node serves the result."""
        response = await self._quorum.submit(decide)
        await self.served()
        return response

    async def submit_each(
        self,
        names: Iterable[str],
        decide: Callable[[ClusterImage], Decision[Sequence[Outcome[Result]]]],
        *,
        needs_room: bool = False,
    ) -> Sequence[Outcome[Result]]:
        """`submit` for a command about several things. If it cannot be stored, each of them is refused."""
        try:
            if needs_room and self.is_controller:  # elsewhere a controller that is lost may have decided it already
                self._check_room()
            return await self.submit(decide)
        except Refusal as refusal:
            return [Outcome(name, refusal) for name in names]

    def _check_room(self) -> None:
        """Refuse what needs new files while the disk has no space for them."""
        free_bytes = self._world.disk.free_bytes()
        if free_bytes < ROOM_BYTES:
            raise Refusal(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the disk of node {self._channel.node_id} is full ({free_bytes} bytes are free); delete topics, "
                "shorten retention or add space",
            )

    def new_topic_id(self) -> TopicId:
        return TopicId(self._world.entropy.token(16))

    async def forward(
        self, message: Message, version: int, answer: type[Answer], *, client_id: str = "", client_host: str = ""
    ) -> Answer:
        """Let the controller decide it, and wait until this node serves the result. Raises Refusal or ClientError."""
        answered = await self._channel.forward(message, version, answer, client_id=client_id, client_host=client_host)
        await self.served()
        return answered


async def _nothing_to_serve() -> None: ...
