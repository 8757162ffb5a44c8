"""A vector's request on its way out, and its answer held against what was expected."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import httpx

from tests.contract.api.wire import differences


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
        content["content"] = raw_bytes(request["raw"])
    return client.request(request["method"], request["path"], headers=headers, **content)


def raw_bytes(raw: str | list[Any]) -> bytes:
    parts = [raw] if isinstance(raw, str) else raw
    return "".join(part if isinstance(part, str) else part[0] * part[1] for part in parts).encode(
        "latin-1"
    )


def parsed(answer: httpx.Response) -> Any:
    if not answer.content:
        return None
    is_json = answer.headers["content-type"] == "application/json"
    return answer.json() if is_json else answer.text


def unexpected(response: dict[str, Any], answer: httpx.Response, base: str) -> Iterator[str]:
    if answer.status_code != response["status"]:
        yield f"status is {answer.status_code} and not {response['status']}"
    for name, value in response.get("headers", {}).items():
        yield from differences(value, answer.headers.get(name), base, name)
    yield from differences(response.get("body"), parsed(answer), base)
