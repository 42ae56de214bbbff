"""What members of a classic group hear while their coordinator still reads its log."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from headrace.broker.coordination.shard import Shard
from headrace.model.errors import ErrorCode
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.messages.sync_group import SyncGroupRequest
from tests.unit.servers.living_server import living_server

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.wire.api import Message

GROUP, MEMBER, SESSION_MS = "g", "member", 6_000
FIND_COORDINATOR = 4


@pytest.mark.parametrize(
    ("request_", "version", "code"),
    [
        (HeartbeatRequest(GROUP, 1, MEMBER), 3, ErrorCode.NONE),
        (SyncGroupRequest(GROUP, 1, MEMBER), 3, ErrorCode.REBALANCE_IN_PROGRESS),
        (
            JoinGroupRequest(
                GROUP, SESSION_MS, SESSION_MS, MEMBER, None, "consumer", [JoinGroupRequestProtocol("range", b"")]
            ),
            5,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ),
    ],
    ids=["heartbeat", "sync", "join"],
)
async def test_they_stay_members_until_it_is_known_who_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: Message, version: int, code: ErrorCode
) -> None:
    async def forever(_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Shard, "_load", forever)
    async with living_server(tmp_path) as server:
        client = await server.connect()
        await client.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), FIND_COORDINATOR)
        answer = await client.ask(request_, version)
        assert answer.error_code == code
