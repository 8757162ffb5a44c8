"""What grows while the service runs: memory, threads and descriptors of each process.

    python -m benchmarks.soak [--minutes 20] [--processes 2] [--rate 1.0] [--samples FILE]

The service has embedded data. Clients capture single events and batches, of new and of known
persons, evaluate flags with and without stored data, poll the definitions like an SDK that
evaluates locally, list events, query them, read the API and change flags: about a hundred requests
and twice as many further events a second, times `--rate`.

The table has the figures after the first minute, in the middle and at the end, and the slope of
the second half by least squares: the memory of the owner and the readers should rise by at most
0.5 MB a minute, once their caches are full. That of the event engine goes up and down. PSS
counts pages that processes share in parts. `--samples` writes all samples as CSV.
"""

import argparse
import gzip
import http.client
import itertools
import json
import os
import random
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from tools.try_wheel import list_children

from benchmarks import flag_world
from benchmarks.capture import HEDGEROW, event
from benchmarks.decide import PROJECT_KEY
from benchmarks.http import started
from benchmarks.records import KEY

SAMPLE_S = 5.0
WARM_UP_S = 60.0
# Connections end now and then, so that the load spreads over all processes.
REQUESTS_PER_CONNECTION = 50
BATCH, LARGE_BATCH = 50, 1000
FLAGS = "/api/projects/1/feature_flags/"
DEFINITIONS = f"/api/feature_flag/local_evaluation/?token={PROJECT_KEY}&send_cohorts"
READS = (
    FLAGS,
    "/api/projects/1/persons/?limit=100",
    "/api/projects/1/persons/?search=example.com",
    "/api/projects/1/events/?limit=1000",
    "/api/projects/1/cohorts/",
    "/api/projects/1/event_definitions/",
    "/api/projects/1/property_definitions/",
    "/api/projects/1/activity_log/",
    "/api/projects/1/",
)
QUERIES = (
    "SELECT event, count() FROM events GROUP BY event ORDER BY 2 DESC LIMIT 10",
    "SELECT count(DISTINCT person_id) FROM events WHERE timestamp > now() - INTERVAL 1 DAY",
    "SELECT properties.$browser, count() FROM events WHERE distinct_id = 'user-{}' GROUP BY 1",
    "SELECT uuid, event, properties, distinct_id FROM events ORDER BY timestamp DESC LIMIT 2000",
)


class Client:
    """A connection that is replaced now and then. Counts the answers by status."""

    def __init__(self, port: int, statuses: Counter[str]) -> None:
        self._port = port
        self._statuses = statuses
        self._connection: http.client.HTTPConnection | None = None
        self._requests = 0
        self.random = random.Random(port)
        self.etag = ""
        self.flag_ids: list[int] = []

    def call(self, method: str, path: str, body: object = None, **headers: str) -> Any:
        if self._connection is None or self._requests >= REQUESTS_PER_CONNECTION:
            self.close()
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
            self._requests = 0
        self._requests += 1
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}", **headers}
        content = body if isinstance(body, bytes) or body is None else json.dumps(body)
        try:
            self._connection.request(method, path, content, headers)
            response = self._connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._statuses[type(error).__name__] += 1
            self.close()
            return None
        self._statuses[str(response.status)] += 1
        if response.status >= 400:
            print(f"{method} {path}: {response.status} {answer[:300]!r}", flush=True)
        self.etag = response.getheader("ETag") or ""
        return json.loads(answer) if answer and response.status < 300 else None

    def post(self, path: str, **body: object) -> Any:
        return self.call("POST", path, {"api_key": PROJECT_KEY, "token": PROJECT_KEY, **body})

    def pick_known(self) -> str:
        return flag_world.distinct_id(self.random.randrange(1, 1000))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def build_event(client: Client, number: int) -> dict[str, Any]:
    """Half of the events are of a new person."""
    distinct_id = client.pick_known() if number % 2 else str(uuid4())
    return event(number % 1000) | {"distinct_id": distinct_id, "timestamp": None}


def capture_single(client: Client, number: int) -> None:
    client.post("/e/", **build_event(client, number))


def capture_batch(client: Client, number: int) -> None:
    events = [build_event(client, number * BATCH + each) for each in range(BATCH)]
    client.post("/batch/", batch=events)


def capture_large_batch(client: Client, number: int) -> None:
    events = [build_event(client, number * BATCH + each) for each in range(LARGE_BATCH)]
    body = gzip.compress(json.dumps({"api_key": PROJECT_KEY, "batch": events}).encode())
    client.call("POST", "/batch/", body, **{"Content-Encoding": "gzip"})


def decide_with_properties(client: Client, number: int) -> None:
    properties = flag_world.properties(number % 1000)
    client.post("/decide?v=3", distinct_id=f"visitor-{number}", person_properties=properties)


def decide_with_stored(client: Client, number: int) -> None:
    client.post("/decide?v=3", distinct_id=client.pick_known())


def get_flags(client: Client, number: int) -> None:
    client.post("/flags?v=2", distinct_id=f"visitor-{number}", person_properties={"age": number})


def poll_definitions(client: Client, number: int) -> None:
    client.call("GET", DEFINITIONS, **{"If-None-Match": client.etag} if client.etag else {})


def list_events(client: Client, number: int) -> None:
    client.call("GET", f"/api/projects/1/events/?limit=50&distinct_id={client.pick_known()}")


def query_events(client: Client, number: int) -> None:
    query = QUERIES[number % len(QUERIES)].format(number % 1000)
    body = {"query": {"kind": "HogQLQuery", "query": query}}
    client.call("POST", "/api/projects/1/query/", body)


def read_api(client: Client, number: int) -> None:
    client.call("GET", READS[number % len(READS)])


def change_flags(client: Client, number: int) -> None:
    """Keep ten flags: create one, change one, delete the oldest."""
    ids = client.flag_ids
    if len(ids) < 10:
        body = {"key": f"soak-{number}", "filters": flag_world.filters(number)}
        if made := client.call("POST", FLAGS, body):
            ids.append(made["id"])
    elif number % 3:
        body = {"filters": flag_world.filters(number), "name": f"Change {number}"}
        client.call("PATCH", f"{FLAGS}{client.random.choice(ids)}/", body)
    else:
        client.call("PATCH", f"{FLAGS}{ids.pop(0)}/", {"deleted": True})


# How often a second, for each kind of traffic.
TRAFFIC: Mapping[Callable[[Client, int], None], float] = {
    capture_single: 40,
    capture_batch: 2,
    capture_large_batch: 0.1,
    decide_with_properties: 20,
    decide_with_stored: 20,
    get_flags: 10,
    poll_definitions: 1,
    list_events: 1,
    query_events: 1,
    read_api: 3,
    change_flags: 0.5,
}


@contextmanager
def run_traffic(port: int, rate: float) -> Iterator[Counter[str]]:
    stopping = threading.Event()
    statuses: Counter[str] = Counter()

    def repeat(send: Callable[[Client, int], None], per_s: float) -> None:
        client, due = Client(port, statuses), time.monotonic()
        for number in itertools.count():
            # What a busy machine does not send in time, it does not send later.
            due = max(due + 1 / per_s, time.monotonic() - 1)
            if stopping.wait(max(0.0, due - time.monotonic())):
                break
            send(client, number)
        client.close()

    threads = [
        threading.Thread(target=repeat, args=(send, per_s * rate), daemon=True)
        for send, per_s in TRAFFIC.items()
    ]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        stopping.set()
        for thread in threads:
            thread.join(70)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    at_s: float
    process: str
    rss_mb: float
    pss_mb: float
    threads: int
    descriptors: int


def name_process(pid: int) -> str:
    """Return the last part of the module that the process runs."""
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    module = words[words.index("-m") + 1] if "-m" in words else words[1]
    return module.rpartition(".")[2].rpartition("/")[2]


def read_kb(text: str, name: str) -> float:
    return float(text.partition(f"\n{name}:")[2].split()[0])


def take_samples(pid: int, at_s: float) -> Iterator[Sample]:
    for each in (pid, *list_children(pid)):
        with suppress(OSError):  # it has ended
            status = Path(f"/proc/{each}/status").read_text()
            memory = Path(f"/proc/{each}/smaps_rollup").read_text()
            yield Sample(
                at_s=at_s,
                process=f"{name_process(each)} {each}",
                rss_mb=read_kb(memory, "Rss") / 1024,
                pss_mb=read_kb(memory, "Pss") / 1024,
                threads=int(read_kb(status, "Threads")),
                descriptors=len(os.listdir(f"/proc/{each}/fd")),
            )


def measure(pid: int, minutes: float, write: Callable[[str], object]) -> list[Sample]:
    samples: list[Sample] = []
    began = time.monotonic()
    write("at_s,process,rss_mb,pss_mb,threads,descriptors\n")
    while (at_s := time.monotonic() - began) < minutes * 60:
        for each in take_samples(pid, at_s):
            samples.append(each)
            write(
                f"{each.at_s:.0f},{each.process},{each.rss_mb:.1f},{each.pss_mb:.1f},"
                f"{each.threads},{each.descriptors}\n"
            )
        time.sleep(SAMPLE_S)
    return samples


def print_results(samples: Sequence[Sample], minutes: float) -> None:
    print(f"{'':32} {'start':>9} {'middle':>9} {'end':>9} {'slope a minute':>15}")
    for process in dict.fromkeys(each.process for each in samples):
        own = [each for each in samples if each.process == process]
        for name in ("rss_mb", "pss_mb", "threads", "descriptors"):
            points = [(each.at_s / 60, float(getattr(each, name))) for each in own]
            print_row(f"{process} {name}", points, minutes)


def print_row(name: str, points: Sequence[tuple[float, float]], minutes: float) -> None:
    start = next((value for at, value in points if at * 60 >= WARM_UP_S), points[0][1])
    half = [point for point in points if point[0] >= minutes / 2]
    if len(half) < 2:  # a process that ended
        return
    slope = statistics.linear_regression(*zip(*half, strict=True)).slope
    print(f"{name:32} {start:9.1f} {half[0][1]:9.1f} {half[-1][1]:9.1f} {slope:15.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--samples", type=Path)
    options = parser.parse_args()
    os.environ["HEDGEROW_BOOTSTRAP_PROJECT_KEY"] = PROJECT_KEY
    os.environ["HEDGEROW_BOOTSTRAP_PERSONAL_KEY"] = KEY
    os.environ["HEDGEROW_PROCESSES"] = str(options.processes)
    os.environ["HEDGEROW_LOG_LEVEL"] = "warning"
    with ExitStack() as stack:
        data = stack.enter_context(tempfile.TemporaryDirectory(dir="."))
        command = [HEDGEROW, "serve", "--port", "0", "--data", data]
        server = stack.enter_context(started(command, os.sched_getaffinity(0)))
        flag_world.fill(data, flag_count=flag_world.FLAGS, person_count=1000)
        write = (
            stack.enter_context(options.samples.open("w", buffering=1)).write
            if options.samples
            else str
        )
        statuses = stack.enter_context(run_traffic(server.port, options.rate))
        samples = measure(server.pid, options.minutes, write)
        print_results(samples, options.minutes)
        print(f"answers: {dict(sorted(statuses.items()))}")


if __name__ == "__main__":
    main()
