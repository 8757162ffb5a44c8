"""Sends the requests of wire vectors and compares the responses."""

import base64
import gzip
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

import httpx
from lzstring import LZString

from hedgerow.lib import jsonio
from tests.contract.api.wire import find_differences


def send(client: httpx.Client, request: dict[str, Any]) -> httpx.Response:
    headers = dict(request.get("headers", {}))
    if "key" in request:
        headers["Authorization"] = f"Bearer {request['key']}"
    content: dict[str, Any] = {}
    if "body" in request:
        content["json"] = request["body"]
    elif "multipart" in request:
        content["files"] = {name: (None, text) for name, text in request["multipart"].items()}
    elif "form" in request:
        content["content"] = urlencode([tuple(pair) for pair in request["form"]])
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    elif "raw" in request:
        content["content"] = build_raw_body(request["raw"])
    elif "packed" in request:
        content["content"] = encode_layers(**request["packed"])
    return client.request(request["method"], request["path"], headers=headers, **content)


def build_raw_body(raw: str | list[Any]) -> bytes:
    parts = [raw] if isinstance(raw, str) else raw
    return "".join(part if isinstance(part, str) else part[0] * part[1] for part in parts).encode(
        "latin-1"
    )


def encode_layers(json: Any, through: list[str]) -> bytes:
    """Encode a JSON value in one layer after another, as PostHog's clients do."""
    data = jsonio.encode(json)
    for layer in through:
        data = LAYERS[layer](data)
    return data


def _lz64(data: bytes) -> bytes:
    """Compress UTF-16 code units, as JavaScript does."""
    units = memoryview(data.decode().encode("utf-16-le")).cast("H")
    return str(LZString().compressToBase64("".join(map(chr, units)))).encode()


LAYERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": partial(gzip.compress, mtime=0),
    "deflate": zlib.compress,
    "base64": base64.b64encode,
    "base64 unpadded": lambda data: base64.b64encode(data).rstrip(b"="),
    "base64 for addresses": base64.urlsafe_b64encode,
    "lz64": _lz64,
    "utf-8 with its mark": lambda data: b"\xef\xbb\xbf" + data,
    "half": lambda data: data[: len(data) // 2],
    "quoted": lambda data: quote(data, safe="").encode(),
    "form": lambda data: b"data=" + quote(data, safe="").encode(),
    "form with base64": lambda data: (
        b"data=" + quote(base64.b64encode(data), safe="").encode() + b"&compression=base64"
    ),
    "form with compression": lambda data: b"compression=lz64&data=" + quote(data, safe="").encode(),
}


def parse_body(response: httpx.Response) -> Any:
    if not response.content:
        return None
    is_json = response.headers["content-type"] == "application/json"
    return response.json() if is_json else response.text


def find_mismatches(expected: dict[str, Any], response: httpx.Response, base: str) -> Iterator[str]:
    if response.status_code != expected["status"]:
        yield f"status is {response.status_code} and not {expected['status']}"
    for name, value in expected.get("headers", {}).items():
        yield from find_differences(value, response.headers.get(name), base, name)
    yield from find_differences(expected.get("body"), parse_body(response), base)
