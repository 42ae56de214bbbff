"""A node that obeys access rules, and clients whom it knows by the name that a test gives them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from headrace.access.identity import Identity, Principal
from headrace.metadata.commands.acl_commands import AclText, create_acls, delete_acls
from headrace.model.errors import Refusal
from tests.unit.servers.living_server import living_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.unit.servers.living_server import Client, LivingServer

TOPIC, GROUP, CLUSTER, TRANSACTION = 2, 3, 4, 5
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = range(2, 9)
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 10, 11, 12
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
HOST = "127.0.0.1"
EVERY_KIND = {TOPIC: "*", GROUP: "*", CLUSTER: "kafka-cluster", TRANSACTION: "*"}


class RuledServer:
    def __init__(self, living: LivingServer) -> None:
        self.living = living
        self.node = living.node

    async def connect(self, name: str) -> Client:
        """Known as `User:name`, as if it had logged in."""
        before = {id(seat) for seat in self.living.server.connections.seats()}
        client = await self.living.connect()
        while not (new := [seat for seat in self.living.server.connections.seats() if id(seat) not in before]):
            await client.pause()
        new[0].identity = Identity(Principal("User", name), HOST)
        return client

    async def allow(self, *rules: AclText) -> None:
        outcomes = await self.node.commands.submit(lambda image: create_acls(image, rules))
        assert not any(isinstance(outcome.result, Refusal) for outcome in outcomes), outcomes

    async def revoke(self, *rules: AclText) -> None:
        outcomes = await self.node.commands.submit(lambda image: delete_acls(image, rules))
        assert all(outcome.result for outcome in outcomes), outcomes


@asynccontextmanager
async def ruled_server(directory: Path, **configs: str) -> AsyncIterator[RuledServer]:
    given = {"authorizer_class_name": "headrace", "super_users": "User:root;User:anna", **configs}
    async with living_server(directory, **given) as living:
        yield RuledServer(living)


def rule(name: str, operation: int, kind: int, on: str | None = None, pattern: int = LITERAL, permission: int = ALLOW):
    return AclText(kind, EVERY_KIND[kind] if on is None else on, pattern, f"User:{name}", "*", operation, permission)
