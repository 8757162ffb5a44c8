"""Fuzzed bodies for /decide: no 5xx, no slow response."""

import json
import random
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx

from hedgerow.storage import tables
from tests.contract.api.exchange import LAYERS
from tests.contract.api.shape import find_format_errors
from tests.fault.decide_requests import (
    assert_unharmed,
    build_filters,
    build_flag_filter,
    build_person_filter,
    create_flag,
    decide,
    read_durations_ms,
    write_rows,
)
from tests.support.live import PROJECT_KEY, LiveServer

BODIES = 10_000
BATCH_SIZE = 20
# An unknown key needs a database lookup; requests on other connections do not wait for it.
CONNECTIONS = 5
# Far above the time of a slow request on a busy machine. The test reports the slowest request,
# which should be under 250 ms on a quiet machine.
HANGING_MS = 60_000

JSON = "application/json"


# Fuzzed bodies.

STRANGE: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    1e308,
    -(2**63) - 1,
    2**64,
    10**400,
    float("nan"),
    float("inf"),
    "",
    " ",
    "\0",
    "\ud800",
    "\U0010ffff",
    "e\u0301\u202e",
    "x" * 300,
    "a" * 5000 + "!",
    "9" * 400,
    "1.2.3",
    "2026-01-01",
    "true",
    "{}",
    PROJECT_KEY,
    [],
    {},
    [[]],
    [None, 1, "x"],
    {"": {}},
    {"company": {"size": 5}},
    {"a": {"b": {"c": [1, {"d": None}]}}},
)
FIELDS = (
    *("api_key", "token", "$token", "properties", "distinct_id", "$distinct_id", "groups"),
    *("$groups", "person_properties", "$properties", "group_properties", "$group_properties"),
    *("$anon_distinct_id", "anon_distinct_id", "$device_id", "device_id", "geoip_disable"),
    *("disable_flags", "flag_keys", "flag_keys_to_evaluate", "evaluation_contexts"),
    *("evaluation_environments", "evaluation_runtime", "project_id", "no such field"),
)
PROPERTIES = ("plan", "age", "version", "born", "email", "distinct_id", "$initial_plan", "\0")
SOUND: dict[str, Any] = {
    "api_key": PROJECT_KEY,
    "distinct_id": "somebody",
    "groups": {"company": "acme"},
    "person_properties": {"plan": "pro", "age": 40, "version": "1.2.3", "email": "a@b.example"},
    "group_properties": {"company": {"size": 10}},
}
QUERIES = (
    *("?v=3",) * 30,
    *("", "?v=1", "?v=2", "?v=4", "?v=-1", "?v=x", "?v=3&compression=gzip", "?v=", "?%00=%ff"),
    *("?v=3&compression=gzip-js", "?v=3&compression=lz64", "?v=4&compression=base64"),
    *("?compression=deflate", "?compression=nonsense", "?data=e30=", "?data=%7B", "?v=3&data="),
    *("?only_evaluate_survey_feature_flags=true", "?" + "v=3&" * 100),
)
HEADERS = (
    *(b"Content-Type: application/json\r\n",) * 20,
    b"",
    b"Content-Type: text/plain\r\n",
    b"Content-Type: application/x-www-form-urlencoded\r\n",
    b"Content-Type: multipart/form-data; boundary=x\r\n",
    b"Content-Type: multipart/form-data\r\n",
    b"Content-Encoding: gzip\r\n",
    b"Content-Encoding: lz64\r\n",
    b"Origin: https://app.example\r\nUser-Agent: posthog-js\r\n",
    b"User-Agent: \xff\xfe\r\nX-Forwarded-For: nonsense\r\n",
)
PIECES = (
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b"\\",
    b"\\u0000",
    b"\0",
    b"\xff",
    b"%",
    b"&data=",
    b"1e999",
)
PACKINGS = [layer for layer in LAYERS if layer != "half"]


def fuzzed_value(rng: random.Random) -> Any:
    value = rng.choice(STRANGE)
    roll = rng.random()
    if roll < 0.2:
        return {rng.choice(PROPERTIES): value}
    return [value] * rng.randrange(1, 4) if roll < 0.3 else value


def fuzzed_document(rng: random.Random) -> Any:
    document = dict(SOUND)
    for _ in range(rng.randrange(4)):
        roll = rng.random()
        if roll < 0.5:
            document[rng.choice(FIELDS)] = fuzzed_value(rng)
        elif roll < 0.8:
            changed = {rng.choice(PROPERTIES): fuzzed_value(rng) for _ in range(3)}
            document["person_properties"] = changed
        elif roll < 0.9:
            document.pop(rng.choice(list(document)), None)
        else:
            return rng.choice((fuzzed_value(rng), [document], [[document]]))
    return document


def corrupt(body: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(body) + 1)
        to = at + rng.randrange(1, 20)
        roll = rng.random()
        if roll < 0.3:
            body = body[:at] + rng.choice(PIECES) + body[at:]
        elif roll < 0.5:
            body = body[:at] + body[to:]
        elif roll < 0.7:
            body = body[:at] + bytes([rng.randrange(256)]) + body[at + 1 :]
        elif roll < 0.9:
            body = body[:at] + body[at:to] * rng.randrange(2, 30) + body[to:]
        else:
            body = body[:at]
    return body


def fuzzed_request(rng: random.Random) -> bytes:
    body = json.dumps(fuzzed_document(rng)).encode()
    if rng.random() < 0.35:
        body = corrupt(body, rng)
    if rng.random() < 0.3:
        layer = rng.choice(PACKINGS)
        if layer != "lz64" or (body.isascii() and len(body) < 400):
            body = LAYERS[layer](body)
        if rng.random() < 0.3:
            body = corrupt(body, rng)
    return b"POST /decide%s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s" % (
        rng.choice(QUERIES).encode(),
        rng.choice(HEADERS),
        len(body),
        body,
    )


class PipelinedConnection:
    """A keep-alive connection with pipelined requests and ordered responses."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._stream = connection.makefile("rb")

    def close(self) -> None:
        self._stream.close()
        self._connection.close()

    def send(self, requests: Sequence[bytes]) -> None:
        self._connection.sendall(b"".join(requests))

    def read_response(self) -> tuple[int, bytes]:
        status = self._stream.readline()
        assert status.startswith(b"HTTP/1.1 "), f"the connection broke: {status!r}"
        size = 0
        while (line := self._stream.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        return int(status.split()[1]), self._stream.read(size)


def create_flags_of_every_kind(client: httpx.Client) -> None:
    """Create a flag for each kind of condition that a body can satisfy."""
    root = create_flag(client, "root", build_filters(share=50))
    asks: dict[str, tuple[Any, str]] = {
        "exact": (["pro", "free"], "exact"),
        "is-not": ("pro", "is_not"),
        "contains": ("r", "icontains"),
        "pattern": ("^(a+)+$", "regex"),
        "around": ("^(?=a)b|!$", "not_regex"),
        "greater": (18, "gt"),
        "between": ([1, 50], "between"),
        "semver": ("1.0.0", "semver_gte"),
        "wildcard": ("1.*", "semver_wildcard"),
        "date": ("-30d", "is_date_after"),
        "set": ("", "is_set"),
    }
    for key, (value, operator) in asks.items():
        named = [
            build_person_filter(name, value, operator)
            for name in ("plan", "age", "version", "born")
        ]
        groups = [{"properties": [each], "rollout_percentage": 70} for each in named]
        create_flag(client, key, {"groups": groups})
    variants = [{"key": key, "rollout_percentage": 50} for key in ("a", "b")]
    create_flag(
        client, "variants", build_filters(multivariate={"variants": variants}, payloads={"a": 1})
    )
    create_flag(client, "needs", build_filters(build_flag_filter(root)))
    create_flag(client, "lasting", build_filters(share=50), ensure_experience_continuity=True)
    create_flag(client, "device", build_filters(share=50), bucketing_identifier="device_id")
    create_flag(client, "enrolled", build_filters(share=50, feature_enrollment=True))
    in_group = {"key": "size", "value": 5, "operator": "gt", "type": "group", "group_type_index": 0}
    create_flag(client, "group", build_filters(in_group, aggregation_group_type_index=0))
    create_flag(
        client, "context", build_filters(), evaluation_contexts=["app"], evaluation_runtime="client"
    )


def test_fuzzed_bodies_get_no_5xx_and_no_slow_response(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    rng = random.Random("decide")
    counts: Counter[int] = Counter()
    wrong: list[str] = []
    with LiveServer(tmp_path) as server:
        write_rows(tmp_path, tables.group_types, [{"index": 0, "name": "company"}])
        with server.client() as client:
            create_flags_of_every_kind(client)
        with ExitStack() as opened:
            connections = [PipelinedConnection(server.connect()) for _ in range(CONNECTIONS)]
            for pipe in connections:
                opened.callback(pipe.close)
            for _ in range(BODIES // BATCH_SIZE // CONNECTIONS):
                batches = [[fuzzed_request(rng) for _ in range(BATCH_SIZE)] for _ in connections]
                for pipe, requests in zip(connections, batches, strict=True):
                    pipe.send(requests)
                pairs = zip(connections, batches, strict=True)
                for pipe, request in ((pipe, each) for pipe, part in pairs for each in part):
                    status, body = pipe.read_response()
                    counts[status] += 1
                    if status != 200:
                        wrong += [
                            f"{each}: {request!r}"
                            for each in find_format_errors(status, JSON, body)
                        ]
        with server.client() as client:
            assert decide(client)["errorsWhileComputingFlags"] is False
    assert not wrong, (len(wrong), wrong[:5])
    assert set(counts) <= {200, 400, 401, 413}
    assert counts[200] > BODIES / 5
    assert counts[400] > BODIES / 20
    took = read_durations_ms(server)
    assert len(took) == BODIES + 1
    counted = ", ".join(f"{status}: {count}" for status, count in sorted(counts.items()))
    tell(f"{BODIES} fuzzed requests, responses {counted}; slowest {max(took):.0f} ms")
    assert max(took) < HANGING_MS
    assert_unharmed(server)
