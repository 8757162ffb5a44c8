"""A payload as it arrived: bytes, and the hints of the request about their layers."""

import msgspec
from starlette.types import Scope

from hedgerow.http.payload.documents import OPENERS
from hedgerow.http.payload.forms import parse_urlencoded, read_field


class RawPayload(msgspec.Struct, frozen=True, kw_only=True):
    """`data` is the body, or the query string if `is_query`. `compression` is from the query
    string. For `is_lenient` see PayloadReader."""

    data: bytes = b""
    is_query: bool = False
    content_type: str = ""
    compression: str = ""
    content_encoding: str = ""
    is_lenient: bool = False

    @property
    def has_hints(self) -> bool:
        return bool(self.is_query or self.compression or self.content_encoding)

    @property
    def is_plain_json(self) -> bool:
        return not self.has_hints and self.data.startswith(OPENERS)


def read_hints(scope: Scope, *, is_lenient: bool) -> RawPayload:
    """Return the payload of the query string if it has one, else the hints about the body."""
    query: bytes = scope["query_string"]
    compression = ""
    if b"data=" in query or b"compression=" in query:
        fields = parse_urlencoded(query)
        if fields.get("data"):
            return RawPayload(data=query, is_query=True, is_lenient=is_lenient)
        compression = read_field(fields, "compression")
    headers = dict(scope["headers"])
    return RawPayload(
        content_type=headers.get(b"content-type", b"").decode("latin-1"),
        compression=compression,
        content_encoding=headers.get(b"content-encoding", b"").decode("latin-1"),
        is_lenient=is_lenient,
    )
