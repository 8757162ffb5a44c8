"""How soon a change of a flag is visible at an edge process, on this machine, and how many captured
events it stores while its origin is away.

    python -m benchmarks.edge

Each change turns a flag on or off at the origin. The time begins when the change is sent, and ends
when an answer of the edge process has the new value. Then the origin is frozen, clients send
events one by one and ask for flags, and the origin goes on.
"""

import json
import re
import signal
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from tools.try_wheel import RunningEdge, RunningService, rotate_secret, run_edge, run_service

from benchmarks.load import Load, Measured, run

CHANGES = 100
PAUSE_S = 0.05
CAPTURE_CONNECTIONS, DECIDE_CONNECTIONS = 32, 1
LOAD_S = 10.0
PROGRAMS = Path(sys.executable).parent


def call(method: str, url: str, key: str, body: dict[str, Any] | None = None) -> Any:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = Request(url, json.dumps(body or {}).encode(), headers, method=method)
    with urlopen(request, timeout=30) as response:
        return json.loads(response.read())


def measure(service: RunningService, edge: RunningEdge) -> list[float]:
    flags = f"{service.url}/api/projects/1/feature_flags/"
    flag = {"key": "changing", "name": "", "active": True, "filters": {"groups": [{}]}}
    path = f"{flags}{call('POST', flags, service.personal_key, flag)['id']}/"
    asked = {"api_key": service.project_key, "distinct_id": "ann"}

    def read() -> Any:
        found = call("POST", f"{edge.url}/decide?v=3", "", asked)
        return found["featureFlags"].get("changing")

    while read() is not True:
        time.sleep(PAUSE_S)
    seconds = []
    for number in range(CHANGES):
        is_active = bool(number % 2)
        began = time.perf_counter()
        call("PATCH", path, service.personal_key, {"active": is_active})
        while read() is not is_active:
            pass
        seconds.append(time.perf_counter() - began)
        time.sleep(PAUSE_S)
    return seconds


def build_request(path: str, body: dict[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: edge\r\ncontent-type: application/json\r\n"
        f"content-length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def send_load(url: str, request: bytes, connections: int, seconds: float) -> Measured:
    place = urlsplit(url)
    assert place.hostname is not None
    assert place.port is not None
    return run(
        Load(
            host=place.hostname,
            port=place.port,
            request=request,
            connections=connections,
            seconds=seconds,
        )
    )


def read_resident_mb(edge: RunningEdge) -> float:
    status = Path(f"/proc/{edge.process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", status)
    assert found is not None
    return int(found[1]) / 1024


def read_waiting(edge: RunningEdge) -> int:
    with urlopen(f"{edge.url}/_readiness", timeout=30) as response:
        waiting: int = json.loads(response.read())["inbox"]["requests"]
        return waiting


def measure_away(service: RunningService, edge: RunningEdge) -> None:
    person = {"api_key": service.project_key, "distinct_id": "ann"}
    capture = build_request("/e/", {**person, "event": "bought", "properties": {"price": 12}})
    decide = build_request("/decide?v=3", person)
    before_mb = read_resident_mb(edge)
    alone = send_load(edge.url, decide, DECIDE_CONNECTIONS, LOAD_S)
    service.process.send_signal(signal.SIGSTOP)
    # The first ones wait for the origin.
    call("POST", f"{edge.url}/e/", "", {**person, "event": "first"})
    found: list[Measured] = []
    storing = threading.Thread(
        target=lambda: found.append(send_load(edge.url, capture, CAPTURE_CONNECTIONS, LOAD_S))
    )
    storing.start()
    beside = send_load(edge.url, decide, DECIDE_CONNECTIONS, LOAD_S)
    storing.join()
    waiting, began = read_waiting(edge), time.perf_counter()
    away_mb = read_resident_mb(edge)
    service.process.send_signal(signal.SIGCONT)
    while read_waiting(edge):
        time.sleep(PAUSE_S)
    took = time.perf_counter() - began
    [stored] = found
    print(
        f"With the origin away: {stored.per_second:.0f} events/s stored, one per request, median "
        f"{stored.p50_ms:.1f} ms, p99 {stored.p99_ms:.1f} ms\n"
        f"/decide beside it: median {beside.p50_ms:.1f} ms, p99 {beside.p99_ms:.1f} ms (alone "
        f"{alone.p50_ms:.1f} and {alone.p99_ms:.1f} ms)\n"
        f"With the origin back: {waiting} requests sent on in {took:.0f} s, all of one person, "
        f"{waiting / took:.0f} per second\n"
        f"Resident memory: {before_mb:.0f} MB before, {away_mb:.0f} MB with the origin away, "
        f"{read_resident_mb(edge):.0f} MB after"
    )


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as scratch,
        run_service(PROGRAMS, Path(scratch, "data")) as service,
        run_edge(PROGRAMS, service.url, rotate_secret(service), Path(scratch, "edge")) as edge,
    ):
        found = measure(service, edge)
        measure_away(service, edge)
    print(
        f"{CHANGES} changes, from the request at the origin to an answer of the edge process: "
        f"median {statistics.median(found) * 1000:.0f} ms, longest {max(found) * 1000:.0f} ms"
    )


if __name__ == "__main__":
    main()
