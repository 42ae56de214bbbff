"""What stands around a message on the wire: a length, a header, the message.

A request's header says which API and version follows; a response's only repeats the correlation id. Both have a
newer form with tagged fields, used in the API's flexible versions. Two oddities are the protocol's: the client id
keeps its old-style length for ever, and the answer to ApiVersions always has the old header, because the client that
reads it cannot know yet which versions we speak.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from headrace.wire.api import APIS, ApiKey, request_class, response_class
from headrace.wire.primitives import Buffer, Malformed, Reader, Writer

if TYPE_CHECKING:
    from headrace.wire.api import Message
    from headrace.wire.primitives import Encodable

LENGTH_SIZE = 4
FRAME_BYTES_MAX = 100 * 1024 * 1024  # Kafka's socket.request.max.bytes, which clients are tuned for

_LENGTH = Struct(">i")
_REQUEST_START = Struct(">hhi")
_RESPONSE_START = Struct(">ii")


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str  # empty if the client sent null


def frame_length(buffer: Buffer, position: int = 0, bytes_max: int = FRAME_BYTES_MAX) -> int:
    """How many bytes follow the length field at `position`; raises before anybody makes room for too many."""
    (length,) = _LENGTH.unpack_from(buffer, position)
    if not 0 <= length <= bytes_max:
        raise Malformed(f"frame of {length} bytes, expected 0 to {bytes_max}")
    return int(length)


def decode_request_header(reader: Reader) -> RequestHeader:
    """Leaves the reader at the message.

    For an API that we do not know, only the part that all headers share is read; the caller refuses it anyway.
    """
    api_key, api_version, correlation_id = reader.unpack(_REQUEST_START)
    client_id = reader.nullable_string() or ""
    if is_flexible(api_key, api_version):
        reader.skip_tagged_fields()
    return RequestHeader(api_key, api_version, correlation_id, client_id)


def decode_response_header(reader: Reader, api_key: int, version: int) -> int:
    """The correlation id. Leaves the reader at the message."""
    correlation_id = reader.int32()
    if response_header_is_flexible(api_key, version):
        reader.skip_tagged_fields()
    return correlation_id


def is_flexible(api_key: int, version: int) -> bool:
    """True if requests of this version have the newer header."""
    api = APIS.get(api_key)
    return api is not None and api.is_flexible(version)


def response_header_is_flexible(api_key: int, version: int) -> bool:
    return api_key != ApiKey.API_VERSIONS and is_flexible(api_key, version)


def encode_request(header: RequestHeader, message: Encodable) -> bytes:
    """A whole frame."""
    writer = Writer()
    writer.int32(0)
    writer.pack(_REQUEST_START, header.api_key, header.api_version, header.correlation_id)
    writer.nullable_string(header.client_id)
    if is_flexible(header.api_key, header.api_version):
        writer.no_tagged_fields()
    message.encode(writer, header.api_version)
    return _finish(writer)


def encode_response(correlation_id: int, api_key: int, version: int, message: Encodable) -> bytes:
    """A whole frame."""
    writer = Writer()
    writer.pack(_RESPONSE_START, 0, correlation_id)
    if response_header_is_flexible(api_key, version):
        writer.no_tagged_fields()
    message.encode(writer, version)
    return _finish(writer)


def decode_request(frame: Buffer) -> tuple[RequestHeader, Message]:
    """A frame without its length field, whose API and version the caller has reason to trust."""
    reader = Reader(frame)
    header = decode_request_header(reader)
    return header, request_class(header.api_key).decode(reader, header.api_version)


def decode_response(frame: Buffer, api_key: int, version: int) -> tuple[int, Message]:
    """Correlation id and message of a frame without its length field."""
    reader = Reader(frame)
    correlation_id = decode_response_header(reader, api_key, version)
    return correlation_id, response_class(api_key).decode(reader, version)


def _finish(writer: Writer) -> bytes:
    _LENGTH.pack_into(writer.buffer, 0, len(writer.buffer) - LENGTH_SIZE)
    return bytes(writer.buffer)
