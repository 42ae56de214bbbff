"""Which APIs exist, in which versions, and where their messages are. Modules load when they are first asked for."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, Self

from headrace.wire.messages import TABLE, ApiKey

if TYPE_CHECKING:
    from headrace.wire.primitives import Reader, Writer

__all__ = ["APIS", "Api", "ApiKey", "Message", "request_class", "response_class"]


class Message(Protocol):
    """A request or a response: one class for all versions of its API."""

    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[tuple[int, int]]
    FLEXIBLE_FROM: ClassVar[int | None]

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self: ...

    def encode(self, writer: Writer, version: int) -> None: ...


class Api(NamedTuple):
    """One API: the versions that we can decode, and those that we tell clients of.

    They differ for Produce alone: old librdkafka compresses only if version 0 is on offer, though it never sends it.
    """

    key: int
    name: str
    module: str
    version_min: int
    version_max: int
    advertised_min: int
    advertised_max: int
    flexible_from: int | None

    def serves(self, version: int) -> bool:
        return self.version_min <= version <= self.version_max

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from


APIS: dict[int, Api] = {key: Api(key, *row) for key, row in TABLE.items()}


def request_class(api_key: int) -> type[Message]:
    """The class of an API's requests; the key must be one of `APIS`."""
    return _message_class(api_key, "Request")


def response_class(api_key: int) -> type[Message]:
    return _message_class(api_key, "Response")


@cache
def _message_class(api_key: int, suffix: str) -> type[Message]:
    api = APIS[api_key]
    module = import_module(f"headrace.wire.messages.{api.module}")
    found: type[Message] = getattr(module, api.name + suffix)
    return found
