"""Headers and frames, with the protocol's two oddities."""

from __future__ import annotations

import pytest

from headrace.wire.api import APIS, ApiKey, request_class, response_class
from headrace.wire.frames import (
    FRAME_BYTES_MAX,
    RequestHeader,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    frame_length,
)
from headrace.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from headrace.wire.messages.list_groups import ListGroupsRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headrace.wire.primitives import Malformed, Reader


def test_an_old_request_as_it_stands_on_the_wire() -> None:
    frame = encode_request(RequestHeader(3, 4, 7, "me"), MetadataRequest([MetadataRequestTopic(name="t")]))
    assert frame.hex() == (
        "00000014"  # length
        "0003 0004 00000007 0002 6d65"  # key, version, correlation id, client id
        "00000001 0001 74 01"  # one topic, may be created
    ).replace(" ", "")


def test_a_flexible_request_keeps_the_old_client_id_and_gains_tags() -> None:
    frame = encode_request(RequestHeader(16, 3, 7, "me"), ListGroupsRequest())
    assert frame.hex() == ("0000000e0010 0003 00000007 0002 6d65 0000").replace(" ", "")


def test_requests_come_back() -> None:
    for version in range(14):
        header = RequestHeader(ApiKey.METADATA, version, 99, "client")
        request = MetadataRequest([MetadataRequestTopic(name="orders")])
        frame = encode_request(header, request)
        assert frame_length(frame) == len(frame) - 4
        assert decode_request(frame[4:]) == (header, request)


def test_a_null_client_id_is_an_empty_one() -> None:
    header = decode_request_header(Reader(bytes.fromhex("0003 0004 00000007 ffff")))
    assert header == RequestHeader(3, 4, 7, "")


def test_tags_in_a_request_header_are_skipped() -> None:
    reader = Reader(bytes.fromhex("0003 0009 00000007 0000 01 05 02 aaaa 99"))
    assert decode_request_header(reader) == RequestHeader(3, 9, 7, "")
    assert reader.remaining == 1


def test_of_an_unknown_api_the_common_part_of_the_header_is_read() -> None:
    header = decode_request_header(Reader(bytes.fromhex("7000 0009 00000007 0000 ff")))
    assert header == RequestHeader(0x7000, 9, 7, "")


def test_a_flexible_response_has_tags_in_its_header() -> None:
    frame = encode_response(5, ApiKey.METADATA, 9, MetadataResponse())
    assert frame[4:9].hex() == "0000000500"
    assert decode_response(frame[4:], ApiKey.METADATA, 9) == (5, MetadataResponse())


@pytest.mark.parametrize("version", range(5))
def test_the_answer_to_api_versions_never_has(version: int) -> None:
    response = ApiVersionsResponse(35, [ApiVersion(18, 0, 4)])
    frame = encode_response(5, ApiKey.API_VERSIONS, version, response)
    assert frame[4:10].hex() == "000000050023", "the error code follows the correlation id at once"
    assert decode_response(frame[4:], ApiKey.API_VERSIONS, version) == (5, response)


def test_the_request_for_api_versions_has() -> None:
    frame = encode_request(RequestHeader(18, 3, 1, ""), ApiVersionsRequest("c", "1"))
    assert frame[4:].hex() == ("0012 0003 00000001 0000 000263 0231 00").replace(" ", "")


@pytest.mark.parametrize("length", [-1, FRAME_BYTES_MAX + 1, 2**31 - 1])
def test_impossible_frame_lengths_are_refused(length: int) -> None:
    with pytest.raises(Malformed, match=f"frame of {length} bytes"):
        frame_length(length.to_bytes(4, "big", signed=True))


def test_each_api_has_its_classes_and_ranges() -> None:
    for key, api in APIS.items():
        assert key == api.key == ApiKey(key)
        for found in (request_class(key), response_class(key)):
            assert key == found.API_KEY
            assert (api.version_min, api.version_max) == found.VERSIONS
            assert api.flexible_from == found.FLEXIBLE_FROM
        assert api.advertised_max == api.version_max


def test_only_produce_advertises_more_than_it_serves() -> None:
    assert [api.name for api in APIS.values() if api.advertised_min != api.version_min] == ["Produce"]
    produce = APIS[ApiKey.PRODUCE]
    assert produce.advertised_min == 0
    assert not produce.serves(2)
    assert produce.serves(3)
