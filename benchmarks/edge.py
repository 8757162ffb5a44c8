"""How soon a change of a flag is visible at an edge process, on this machine.

    python -m benchmarks.edge

Each change turns a flag on or off at the origin. The time begins when the change is sent, and ends
when an answer of the edge process has the new value.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tools.try_wheel import RunningService, run_service

CHANGES = 100
PAUSE_S = 0.05
PROGRAMS = Path(sys.executable).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningEdge:
    url: str
    process: "subprocess.Popen[str]"


@contextmanager
def run_edge(origin: str, secret: str, data: Path) -> Iterator[RunningEdge]:
    process = subprocess.Popen(
        [PROGRAMS / "hedgerow", "edge", "--from", origin, "--port", "0", "--data", data],
        stdout=subprocess.PIPE,
        text=True,
        env={
            "PATH": os.environ["PATH"],
            "HEDGEROW_LOG_LEVEL": "warning",
            "HEDGEROW_EDGE_KEYS": secret,
        },
    )
    assert process.stdout is not None
    try:
        found = re.search(r"ready at (\S+)", process.stdout.readline())
        if found is None:
            raise RuntimeError("the edge process did not start")
        yield RunningEdge(url=found[1], process=process)
    finally:
        process.terminate()
        process.communicate()


def call(method: str, url: str, key: str, body: dict[str, Any] | None = None) -> Any:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = Request(url, json.dumps(body or {}).encode(), headers, method=method)
    with urlopen(request, timeout=30) as response:
        return json.loads(response.read())


def rotate_secret(service: RunningService) -> str:
    url = f"{service.url}/api/projects/1/rotate_secret_token/"
    secret: str = call("PATCH", url, service.personal_key)["secret_api_token"]
    return secret


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


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as scratch,
        run_service(PROGRAMS, Path(scratch, "data")) as service,
        run_edge(service.url, rotate_secret(service), Path(scratch, "edge")) as edge,
    ):
        found = measure(service, edge)
    print(
        f"{CHANGES} changes, from the request at the origin to an answer of the edge process: "
        f"median {statistics.median(found) * 1000:.0f} ms, longest {max(found) * 1000:.0f} ms"
    )


if __name__ == "__main__":
    main()
