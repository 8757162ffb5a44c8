"""Forms in a body or a query string: the fields that carry a payload."""

import re
from binascii import a2b_qp
from itertools import islice
from typing import Any

from hedgerow.http.payload.errors import MalformedData

MAX_FORM_FIELDS = 1000
MAX_STRAY_PERCENTS = 1000
MAX_PART_HEADER_BYTES = 4096

_STRAY_PERCENT = re.compile(rb"%(?![0-9a-fA-F]{2})")
_FIELD = re.compile(rb"(?:^|&)(data|compression|api_key|token|_|sent_at)=([^&]*)")
FORM_START = re.compile(rb"(?:data|compression|api_key|token|ver|ip|_)=")
_BOUNDARY = re.compile(r'boundary=(?:"([^"]{1,200})"|([^\s;"]{1,200}))', re.IGNORECASE)
_PART_NAME = re.compile(rb'[;\s]name="?([^";\r\n]*)', re.IGNORECASE)


def read_form_fields(body: bytes, content_type: str) -> dict[str, bytes]:
    """Return the known fields of a form; empty if the body is not a form, whatever its type."""
    essence = content_type.partition(";")[0].strip().lower()
    if essence == "multipart/form-data":
        return _multipart(body, content_type)
    if essence == "application/x-www-form-urlencoded" or FORM_START.match(body):
        return parse_urlencoded(body)
    return {}


def parse_urlencoded(text: bytes) -> dict[str, bytes]:
    found = list(islice(_FIELD.finditer(text), MAX_FORM_FIELDS + 1))
    if len(found) > MAX_FORM_FIELDS:
        raise MalformedData(f"the form has more than {MAX_FORM_FIELDS} fields.")
    return {
        name.decode(): unquote(value.replace(b"+", b" "))
        for name, value in (match.groups() for match in found)
    }


def unquote(text: bytes) -> bytes:
    """Like urllib's unquote_to_bytes, many times faster: quoted-printable is the same encoding with
    another character. A percent sign without two hex digits stays."""
    text, strays = _STRAY_PERCENT.subn(b"%25", text, MAX_STRAY_PERCENTS)
    if strays == MAX_STRAY_PERCENTS:
        raise MalformedData("it is not URL-encoded.")
    return a2b_qp(text.replace(b"=", b"=3D").replace(b"%", b"="))


def split_parts(body: bytes, content_type: str) -> list[tuple[bytes, bytes]]:
    """Return the header and the value of each part of a multipart form."""
    boundary = _BOUNDARY.search(content_type)
    if boundary is None:
        raise MalformedData("the multipart form has no boundary.")
    line = b"\r\n--" + (boundary[1] or boundary[2]).encode("utf-8", "replace")
    _, *parts = (b"\r\n" + body).split(line, MAX_FORM_FIELDS + 1)
    if not parts or not parts[-1].startswith(b"--"):
        raise MalformedData("the multipart form has no end, or too many fields.")
    split = [part.partition(b"\r\n\r\n") for part in parts[:-1]]
    if any(len(head) > MAX_PART_HEADER_BYTES for head, _, _ in split):
        raise MalformedData("a part of the multipart form has no value.")
    return [(head, value) for head, _, value in split]


def read_part_name(head: bytes) -> str | None:
    found = _PART_NAME.search(head)
    return None if found is None else found[1].decode("utf-8", "replace")


def _multipart(body: bytes, content_type: str) -> dict[str, bytes]:
    fields = {}
    for head, value in split_parts(body, content_type):
        name = read_part_name(head)
        if name is not None:
            fields[name] = value
    if "data" not in fields:
        raise MalformedData('the multipart form has no field "data".')
    return fields


def read_field(fields: dict[str, bytes], name: str) -> str:
    return fields.get(name, b"").decode("utf-8", "replace")


def add_token(value: Any, fields: dict[str, bytes]) -> Any:
    """Add the project token of a form to the data. It takes precedence over a token in the data."""
    name = "api_key" if fields.get("api_key") else "token"
    if fields.get(name):
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, dict):
                part["$token"] = read_field(fields, name)
    return value


def parse_sent_at_ms(query_string: bytes) -> int | None:
    """Return the time at which the client sent the request: `_` or `sent_at`, in epoch
    milliseconds."""
    fields = parse_urlencoded(query_string)
    digits = fields.get("_") or fields.get("sent_at") or b""
    return int(digits) if digits.isdigit() and len(digits) <= 15 else None
