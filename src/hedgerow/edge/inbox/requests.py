"""Captured requests that wait for the origin, and the bytes that stand for them in the inbox."""

import struct
from collections.abc import Sequence

import msgspec

from hedgerow.http.sdk.edge_receipt import Receipt
from hedgerow.projects.model import ProjectId

MAX_REASON_CHARS = 500
_LENGTH = struct.Struct(">I")


class WaitingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a client, as it is sent on. `keys` are the hashes of the persons and groups that
    it changes; empty if they are not known."""

    project_id: ProjectId
    method: str
    path: str
    headers: Sequence[tuple[str, str]]
    receipt: Receipt
    keys: Sequence[int] = ()


class StoredRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is its number in the log of its project."""

    id: int
    request: WaitingRequest
    body: bytes
    size: int


class DeadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that the origin has refused for good, or has failed at for too long. `content` is
    what `encode_request` returned."""

    refused_at_s: float
    reason: str
    content: bytes


class DeadRequestSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a list shows of a dead request. `id` is its number in the log of dead letters."""

    id: int
    project_id: ProjectId
    received_at_s: float
    refused_at_s: float
    path: str
    size: int
    reason: str


class Lane(msgspec.Struct, kw_only=True):
    """The requests of one project that wait, or the dead letters. `oldest_us` is the receipt of the
    first request, 0 for dead letters."""

    number: int = 0
    size: int = 0
    oldest_us: int = 0

    def add(self, more: "Lane") -> None:
        """Count what waits behind, or in another lane."""
        oldest = [each.oldest_us for each in (self, more) if each.number and each.oldest_us]
        self.oldest_us = min(oldest, default=0)
        self.number += more.number
        self.size += more.size


encode_dead = msgspec.msgpack.Encoder().encode
decode_dead = msgspec.msgpack.Decoder(DeadRequest).decode
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(WaitingRequest).decode


def encode_request(request: WaitingRequest, body: bytes) -> bytes:
    head = _encode(request)
    return b"".join((_LENGTH.pack(len(head)), head, body))


def decode_request(content: bytes) -> tuple[WaitingRequest, bytes]:
    """Raises msgspec.MsgspecError."""
    [length] = _LENGTH.unpack_from(content)
    end = _LENGTH.size + length
    return _decode(memoryview(content)[_LENGTH.size : end]), content[end:]
