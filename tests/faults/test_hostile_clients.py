"""Clients that break the rules of the wire: lying lengths, half headers, unknown words, other protocols.

Each is answered with a Kafka error or a closed connection. `WatchedNode.attacked` holds what that means for the rest:
others are served meanwhile, and afterwards the node has its old memory, its old descriptors and a clean log.
"""

from __future__ import annotations

import socket
import ssl
import struct
from typing import TYPE_CHECKING

import pytest

from headrace.model.errors import ErrorCode
from headrace.wire.api import APIS, ApiKey
from headrace.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.wire.primitives import Reader
from tests.faults.hostile import (
    LENGTH,
    MIB,
    PATIENCE_S,
    WatchedNode,
    framed,
    one_batch,
    produce_request,
    request_start,
    watched_node,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

FRAME_MAX = 100 * MIB
CREATE_DELEGATION_TOKEN = 38  # one of Kafka's that is not served
API_VERSIONS_V0 = framed(request_start(ApiKey.API_VERSIONS, 0))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedNode]:
    with watched_node(tmp_path_factory.mktemp("hostile")) as watched:
        yield watched


# ---- lengths that lie


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 1, 2, 3, 4, 5, 6, 7, FRAME_MAX + 1, 2**31 - 1])
def test_a_frame_of_impossible_length_closes_the_connection(node: WatchedNode, length: int) -> None:
    with node.attacked(), node.connect() as client:
        client.send(LENGTH.pack(length) + b"\0" * 64)
        assert client.is_refused()


@pytest.mark.parametrize("size", range(8, 17))
def test_a_frame_that_ends_inside_its_header_closes_the_connection(node: WatchedNode, size: int) -> None:
    start = request_start(ApiKey.METADATA, 12)[:size]
    with node.attacked(), node.connect() as client:
        client.send(framed(start))
        assert client.is_refused()


def test_counts_and_lengths_beyond_the_frame_are_refused_before_memory_is_taken(node: WatchedNode) -> None:
    old, flexible = struct.pack(">i", 2**31 - 1), b"\xff\xff\xff\xff\x0f"
    lies = {
        "an array of topics": (ApiKey.METADATA, 4, old),
        "a compact array of topics": (ApiKey.METADATA, 9, b"\0" + flexible),
        "a string": (ApiKey.METADATA, 4, struct.pack(">ih", 1, 0x7FFF) + b"x"),
        "a compact string": (ApiKey.METADATA, 9, b"\0\x02" + flexible + b"x"),
        "a topic of a produce": (ApiKey.PRODUCE, 7, struct.pack(">hhii", -1, 1, 100, 2**31 - 1)),
        "a compact topic of a produce": (ApiKey.PRODUCE, 9, b"\0\0" + struct.pack(">hi", 1, 100) + flexible),
        "a partition of a produce": (ApiKey.PRODUCE, 7, struct.pack(">hhiihsi", -1, 1, 100, 1, 1, b"t", 2**31 - 1)),
        "the records of a produce": (
            ApiKey.PRODUCE, 7, struct.pack(">hhiihsiii", -1, 1, 100, 1, 1, b"t", 1, 0, 2**31 - 1),
        ),
        "the numbers of a fetch": (ApiKey.FETCH, 4, struct.pack(">iiiibi", -1, 0, 0, 0, 0, 2**31 - 1)),
    }  # fmt: skip
    for name, (api_key, version, body) in lies.items():
        with node.attacked(), node.connect() as client:
            client.send(framed(request_start(api_key, version) + body))
            assert client.is_refused(), name


def test_a_client_id_that_is_longer_than_its_frame(node: WatchedNode) -> None:
    for api_key, version in [(ApiKey.PRODUCE, 3), (ApiKey.PRODUCE, 9), (ApiKey.FETCH, 12), (ApiKey.API_VERSIONS, 3)]:
        with node.attacked(), node.connect() as client:
            client.send(framed(struct.pack(">hhih", api_key, version, 1, 0x7FFF) + b"short"))
            assert client.is_refused()


def test_a_client_id_of_32_kib_is_served(node: WatchedNode) -> None:
    with node.attacked(), node.connect() as client:
        for version in (0, 2, 3):
            name = "x" * 0x7FFF
            assert client.ask(ApiVersionsRequest("tool", "1"), version, client_id=name).error_code == 0
        assert client.ask(produce_request("healthy", one_batch()), 9, client_id=name).responses


# ---- words nobody knows


def test_unknown_apis_and_versions_close_the_connection(node: WatchedNode) -> None:
    strange = [(-1, 0), (999, 0), (2**15 - 1, 3), (-(2**15), 0)]
    strange += [(key, api.version_max + 1) for key, api in APIS.items() if key != ApiKey.API_VERSIONS]
    strange += [(ApiKey.PRODUCE, 2), (ApiKey.PRODUCE, -1), (ApiKey.FETCH, 3), (ApiKey.METADATA, -1)]
    strange += [(ApiKey.ALTER_CLIENT_QUOTAS, 1), (CREATE_DELEGATION_TOKEN, 3)]
    strange += [(ApiKey.RAFT_APPEND_ENTRIES, 0), (ApiKey.FORWARD, 0), (ApiKey.BROKER_HEARTBEAT, 1)]  # for nodes only
    with node.attacked():
        for api_key, version in strange:
            with node.connect() as client:
                client.send(framed(request_start(api_key, version) + b"\0" * 40))
                assert client.is_refused(), (api_key, version)


@pytest.mark.parametrize("version", [5, 6, 99, 2**15 - 1, -1])
def test_api_versions_of_the_future_is_answered_in_the_oldest_form(node: WatchedNode, version: int) -> None:
    with node.attacked(), node.connect() as client:
        client.send(framed(request_start(ApiKey.API_VERSIONS, version) + b"\xff" * 30))
        frame = client.frame()
        assert frame is not None
        answer = ApiVersionsResponse.decode(Reader(frame, 4), 0)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert ApiKey.API_VERSIONS in {known.api_key for known in answer.api_keys}
        # The client steps down on the same connection.
        assert client.ask(ApiVersionsRequest(), 0).error_code == 0


def test_tagged_fields_huge_many_and_repeated(node: WatchedNode) -> None:
    def api_versions(tags: bytes) -> bytes:
        return framed(request_start(ApiKey.API_VERSIONS, 3) + tags + b"\x02a\x021\0")

    def uvarint(value: int) -> bytes:
        out = bytearray()
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes([*out, value])

    huge = b"\x01\x63" + uvarint(4 * MIB) + b"\xff" * (4 * MIB)
    repeated = b"\x03" + b"\x07\x01x" * 3
    with node.attacked(), node.connect() as client:
        for tags in (huge, repeated, b"\0"):
            client.send(api_versions(tags))
            assert client.frame() is not None
    for many in (b"\xff\xff\xff\xff\x0f", uvarint(4 * MIB) + b"\x07\x00" * (4 * MIB)):
        with node.attacked(), node.connect() as client:
            client.send(api_versions(many))
            assert client.is_refused()
        with node.attacked(), node.connect() as client:
            client.send(framed(request_start(ApiKey.PRODUCE, 9) + many + b"\0" * 20))
            assert client.is_refused()


def test_strings_that_are_not_utf_8(node: WatchedNode) -> None:
    bad = b"\xff\xfe\x80"
    requests = [
        request_start(ApiKey.METADATA, 4, client_id=bad) + struct.pack(">ib", 0, 0),
        request_start(ApiKey.METADATA, 4) + struct.pack(">ih", 1, len(bad)) + bad + b"\0",
        request_start(ApiKey.METADATA, 9) + b"\0\x02\x04" + bad + b"\0\0\0\0\0",
        request_start(ApiKey.PRODUCE, 7) + struct.pack(">hhiih", -1, 1, 100, 1, len(bad)) + bad + struct.pack(">i", 0),
        request_start(ApiKey.PRODUCE, 9) + b"\0\0" + struct.pack(">hi", 1, 100) + b"\x02\x04" + bad + b"\x01\0\0",
    ]
    for request in requests:
        with node.attacked(), node.connect() as client:
            client.send(framed(request))
            assert client.is_refused()


@pytest.mark.parametrize(
    "greeting",
    [
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        b"POST /topics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x00" * 64,
        b"\xff" * 64,
    ],
)
def test_another_protocol_on_this_port_is_closed(node: WatchedNode, greeting: bytes) -> None:
    with node.attacked(), node.connect() as client:
        client.send(greeting)
        assert client.is_refused()


def test_a_tls_hello_is_closed(node: WatchedNode) -> None:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        node.attacked(),
        socket.create_connection(("127.0.0.1", node.port), timeout=PATIENCE_S) as plain,
        pytest.raises((ssl.SSLError, ConnectionResetError)),
    ):
        context.wrap_socket(plain)


def test_requests_before_garbage_are_answered_or_cut_but_never_mixed_up(node: WatchedNode) -> None:
    with node.attacked(), node.connect() as client:
        client.begin(ApiVersionsRequest(), 0)
        client.answer(ApiVersionsRequest(), 0)
        client.send(API_VERSIONS_V0 + b"\xff" * 100)
        frame = client.frame()
        assert frame is None or frame[:4] == struct.pack(">i", 7)
        assert frame is None or client.is_refused()
