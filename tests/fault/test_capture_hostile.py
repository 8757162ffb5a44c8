"""Hostile capture requests: no 5xx, no delay of other requests, no lost event."""

import base64
import gzip
import json
import random
import statistics
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.api.shape import find_format_errors
from tests.fault.capture_batches import build_event, send_batch
from tests.fault.decide_requests import assert_unharmed
from tests.support.live import PROJECT_KEY, LiveServer, read_error
from tests.support.stored_events import count_waiting_events, read_stored_events, wait_until_stored

MIB = 1 << 20
FUZZED_REQUESTS = 400
TINY_EVENTS = 200_000
# Shorter work does not noticeably delay other requests.
NOTICEABLE_S = 2.0

HOSTILE: tuple[str, ...] = (
    "",
    " ",
    "\t\r\n",
    "\0",
    "a\0b",
    "\ud800",
    "x\udfff",
    "\ufeff",
    "\ufffe\uffff",
    "\U0010ffff",
    "\u202ereversed\u202c",
    "e\u0301" * 50,
    "Z̮̞̠͙͔ͅḀ̗̞͈̻̗Ḷ͙͎̯̹̞͓G̻O̭̗̮",
    "👩‍👩‍👧‍👦",
    "ﷺ",
    "̡͓̞ͅI̗̘̦",
    "null",
    "undefined",
    "NaN",
    "true",
    "1e400",
    "-0",
    "9" * 400,
    "0x7fffffffffffffff",
    "{}",
    "[]",
    '"',
    "'",
    "`",
    "\\",
    "\\N",
    "\\u0000",
    "\\\\' OR 1=1 --",
    "'; DROP TABLE events; --",
    "{uuid:UUID}",
    "%s %(a)s ? :a $1 ${a} {{a}} {a}",
    "%00%2e%2e%2f",
    "../../etc/passwd",
    "<script>alert(1)</script>",
    "$set",
    "$identify",
    "$group_0",
    "__proto__",
    "constructor",
    "x" * 400,
    "ü" * 201,
    "😀" * 200,
)
VALUES: tuple[Any, ...] = (
    *HOSTILE,
    None,
    True,
    False,
    0,
    -1,
    1.5,
    1e308,
    5e-324,
    2**63,
    -(2**63) - 1,
    2**64,
    10**400,
    float("nan"),
    float("inf"),
    [],
    {},
    [[]],
    [None, 1, "x", {"": {}}],
    {"a": {"b": {"c": [1, {"d": None}]}}},
    {"": "", "\0": "\0", "$set": {"$set": {}}},
    PROJECT_KEY,
    "2026-01-01",
    "0000-00-00T99:99:99Z",
    "9999-12-31T23:59:59.999999999Z",
    "0199aaaa-0000-7000-8000-000000000001",
    "{0199aaaa-0000-7000-8000-000000000001}",
)
NAMES = (
    *("$set", "$unset", "$set_once", "$identify", "$create_alias", "$merge_dangerously"),
    *("$groupidentify", "$feature_flag_called", "$autocapture", "$pageview", "seen"),
    *("$exception", "$performance_event", "$$heatmap", "$ai_generation", "$snapshot"),
)
FIELDS = (
    *("event", "distinct_id", "$distinct_id", "uuid", "timestamp", "offset", "properties"),
    *("$set", "$set_once", "$unset", "token", "api_key", "sent_at", "historical_migration"),
)
PROPERTIES = (
    *("$set", "$set_once", "$unset", "$anon_distinct_id", "alias", "distinct_id", "token"),
    *("$group_type", "$group_key", "$group_set", "$groups", "$group_0", "$group_5", "$ip"),
    *("$process_person_profile", "$geoip_disable", "$ignore_sent_at", "$elements"),
    *("$elements_chain", "$feature_flag", "$feature_flag_response", "$feature/f", "$session_id"),
    *("$current_url", "utm_source", "$os", "$browser", "$sent_at", "$creator_event_uuid"),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("hostile")) as server:
        yield server


@pytest.fixture
def client(server: LiveServer) -> Iterator[httpx.Client]:
    """After each test the ingestion is idle and the server is healthy."""
    with server.client(key=None) as client:
        yield client
        assert send_batch(client, [build_event("canary")]).status_code == 200
    wait_until_stored(server.data, at_most_s=60)
    assert_unharmed(server)


@contextmanager
def check_responsive(
    server: LiveServer, tell: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Check that other requests complete while the block runs, on a slow machine, too."""
    took: list[float] = []
    done = threading.Event()

    def probe() -> None:
        with server.client(key=None) as client:
            while not done.wait(0.02):
                began = time.monotonic()
                assert client.get("/_liveness").status_code == 200
                took.append(time.monotonic() - began)

    looking = threading.Thread(target=probe, daemon=True)
    looking.start()
    began = time.monotonic()
    yield
    lasted = time.monotonic() - began
    done.set()
    looking.join()
    if tell:
        tell(f"liveness: median {statistics.median(took):.3f} s, at most {max(took):.3f} s")
    assert lasted < NOTICEABLE_S or max(took) < lasted / 2


def post(client: httpx.Client, body: bytes, path: str = "/e/", **headers: str) -> httpx.Response:
    return client.post(path, content=body, headers=headers)


def assert_error_shape(answer: httpx.Response) -> None:
    content_type = answer.headers.get("content-type")
    assert list(find_format_errors(answer.status_code, content_type, answer.content)) == []


def encode_like_python(value: Any) -> bytes:
    """Encode as Python does: with NaN and lone surrogates."""
    return json.dumps(value).encode()


def bomb(size: int, opening: bytes = b"[") -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [packer.compress(opening)]
    parts += [packer.compress(b" " * MIB) for _ in range(size // MIB)]
    return b"".join([*parts, packer.compress(b"]"), packer.flush()])


def memory_mib(server: LiveServer) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


def test_compression_bombs_are_rejected(server: LiveServer, client: httpx.Client) -> None:
    small, large = bomb(101 * MIB), bomb(300 * MIB)
    with check_responsive(server):
        for body in (small, large, gzip.compress(small), gzip.compress(gzip.compress(large))):
            answer = post(client, body)
            assert answer.status_code == 413, answer.text
            assert read_error(answer)["code"] == "request_too_large"
    packed = base64.urlsafe_b64encode(gzip.compress(small)).decode()
    with check_responsive(server):
        assert client.get(f"/e/?compression=gzip&data={packed}").status_code == 413
    # Three times the unpacked limit, and the memory of the event store.
    assert memory_mib(server) < 900


def test_compressed_million_events_do_not_block_other_requests(
    server: LiveServer, client: httpx.Client
) -> None:
    start = b'{"api_key":"%s","batch":[' % PROJECT_KEY.encode()
    body = gzip.compress(start + b"{}," * 300_000 + b"{}]}")
    assert len(body) < 2000
    with check_responsive(server):
        answer = post(client, body, "/batch/")
    assert answer.status_code == 413
    assert "at most 200000 events" in read_error(answer)["detail"]


def test_truncated_body_is_rejected(client: httpx.Client) -> None:
    whole = gzip.compress(encode_like_python({"api_key": PROJECT_KEY, **build_event()}))
    for end in range(1, len(whole)):
        answer = post(client, whole[:end])
        assert answer.status_code == 400, (end, answer.text)
        assert_error_shape(answer)
    for at in range(0, len(whole), 7):
        damaged = whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]
        assert post(client, damaged).status_code in (200, 400)


def test_two_hundred_thousand_events_in_one_batch(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    tiny = [b'{"event":"e","distinct_id":"d%d"}' % (n % 1000) for n in range(TINY_EVENTS)]
    body = b'{"api_key":"%s","batch":[%s]}' % (PROJECT_KEY.encode(), b",".join(tiny))
    with LiveServer(tmp_path) as server, server.client(key=None) as client:
        assert send_batch(client, [build_event("first")]).status_code == 200
        wait_until_stored(tmp_path)
        with check_responsive(server, tell):
            began = time.monotonic()
            answer = client.post("/batch/", content=body)
            took = time.monotonic() - began
            assert (answer.status_code, answer.json()) == (200, {"status": 1})
            time.sleep(2)
        left = count_waiting_events(tmp_path)
        server.kill()
    tell(f"{TINY_EVENTS} events in one batch: accepted in {took:.1f} s")
    assert_unharmed(server)
    stored = [row["uuid"] for row in read_stored_events(tmp_path, "SELECT uuid FROM events")]
    # More events may have been stored between the check and the end.
    assert TINY_EVENTS + 1 - left <= len(stored) <= TINY_EVENTS + 1
    assert len(set(stored)) == len(stored)


def test_two_hundred_thousand_invalid_events_in_one_batch(
    server: LiveServer, client: httpx.Client
) -> None:
    body = b'{"api_key":"%s","batch":[%s{}]}' % (PROJECT_KEY.encode(), b"{}," * (TINY_EVENTS - 1))
    with check_responsive(server):
        answer = client.post("/batch/", content=body)
    assert answer.status_code == 400
    assert read_error(answer)["code"] == "missing_event_name"


@pytest.mark.parametrize("levels", [50, 90, 100, 101, 1000, 100_000])
def test_deep_nesting_is_accepted_or_rejected(client: httpx.Client, levels: int) -> None:
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        deep = opening * levels + b"1" + closing * levels
        for name in (b"a", b"$set", b"$groups", b"$elements"):
            event = b'{"api_key":"%s","event":"$set","distinct_id":"deep","properties":{"%s":%s}}'
            answer = post(client, event % (PROJECT_KEY.encode(), name, deep))
            assert answer.status_code == (200 if levels < 95 else 400), answer.text


def test_hostile_text_is_accepted_in_every_field(server: LiveServer, client: httpx.Client) -> None:
    batch = []
    for text in HOSTILE:
        properties = {text: text, "$set": {text: text}, "$groups": {text: text}}
        batch.append({"event": "hostile property", "distinct_id": "ann", "properties": properties})
        batch.append({"event": text, "distinct_id": "ann"})
        batch.append({"event": "hostile id", "distinct_id": text})
        alias = {"$anon_distinct_id": text, "$set_once": {text: text}, "$unset": [text]}
        batch.append({"event": "$identify", "distinct_id": "bob", "properties": alias})
        flag = {"$feature_flag": text, "$feature_flag_response": text}
        batch.append({"event": "$feature_flag_called", "distinct_id": "ann", "properties": flag})
        group = {"$group_type": text, "$group_key": text, "$group_set": {text: text}}
        batch.append({"event": "$groupidentify", "distinct_id": "ann", "properties": group})
    answer = post(client, encode_like_python({"api_key": PROJECT_KEY, "batch": batch}), "/batch/")
    assert answer.status_code == 200, answer.text
    rejected = {each["code"] for each in answer.json()["rejected"]}
    assert rejected == {"missing_event_name", "missing_distinct_id"}


def test_fuzzed_events_cause_no_5xx(
    server: LiveServer, client: httpx.Client, tell: Callable[[str], None]
) -> None:
    rng = random.Random(20260329)
    statuses = []
    for _ in range(FUZZED_REQUESTS):
        body: Any = {"api_key": PROJECT_KEY, "batch": [_fuzzed(rng) for _ in range(8)]}
        if rng.random() < 0.1:
            body[rng.choice(("sent_at", "historical_migration"))] = rng.choice(VALUES)
        if rng.random() < 0.1:
            body = {"api_key": PROJECT_KEY, **_fuzzed(rng)}
        answer = post(client, encode_like_python(body), rng.choice(("/batch/", "/e/", "/engage/")))
        statuses.append(answer.status_code)
        assert answer.status_code < 500, (answer.text, body)
        if answer.status_code != 200:
            assert_error_shape(answer)
    tell(f"fuzzed: {statuses.count(200)} of {FUZZED_REQUESTS} requests accepted")
    assert statuses.count(200) > FUZZED_REQUESTS // 2


def _fuzzed(rng: random.Random) -> dict[str, Any]:
    properties = {rng.choice(PROPERTIES): rng.choice(VALUES) for _ in range(rng.randrange(6))}
    for name in ("$set", "$set_once", "$groups", "$group_set"):
        if rng.random() < 0.2:
            properties[name] = {rng.choice(HOSTILE): rng.choice(VALUES)}
    if rng.random() < 0.1:
        elements = {name: rng.choice(VALUES) for name in ("tag_name", "attr__class", "nth_child")}
        properties["$elements"] = [elements, rng.choice(VALUES)]
    made = {
        "event": rng.choice(NAMES),
        "distinct_id": rng.choice(("ann", "bob", rng.choice(HOSTILE))),
        "properties": properties,
    }
    while rng.random() < 0.3:
        made[rng.choice(FIELDS)] = rng.choice(VALUES)
    return made


def test_every_accepted_event_is_stored(tmp_path: Path) -> None:
    """Each hostile value is stored in a property of its own event and is found again."""
    with LiveServer(tmp_path) as server, server.client(key=None) as client:
        batch = [build_event(f"value {n}", a=value) for n, value in enumerate(VALUES)]
        answer = post(
            client, encode_like_python({"api_key": PROJECT_KEY, "batch": batch}), "/batch/"
        )
        assert (answer.status_code, answer.json()) == (200, {"status": 1})
        wait_until_stored(server.data)
    stored = {
        row["event"]: json.loads(row["properties"])["a"] for row in read_stored_events(tmp_path)
    }
    for number, value in enumerate(VALUES):
        assert stored[f"value {number}"] == _expected(value), value
    assert_unharmed(server)


def _expected(value: Any) -> Any:
    """NUL and lone surrogates are replaced; NaN and infinity are null."""
    if isinstance(value, str):
        return "".join("\ufffd" if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in value)
    if isinstance(value, dict):
        return {_expected(name): _expected(each) for name, each in value.items()}
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return None
    return value
