"""How long after a changed flag is acknowledged does another process answer with the old one?

    python -m benchmarks.flag_changes [--stores embedded postgresql] [--processes 3] [--changes 300]
        [--flags 100] [--pause-ms 2] [--clients 1]

`hedgerow serve --processes N` runs on SQLite and on PostgreSQL. Clients evaluate a flag on each
process without an end, while another client turns the flag on and off. An answer is stale if its
request was sent after the acknowledgement and it has the old value. A process needs zero for a
change whose first such answer is right, otherwise the time from the acknowledgement until its last
stale answer. The clients share the cores with the processes.
"""

import argparse
import http.client
import json
import random
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.live import PERSONAL_KEY, PROJECT_KEY, LiveServer
from tests.support.postgres import PostgresTestServer

from hedgerow.lib.encryption import generate_encryption_key

FLAGS = "/api/projects/1/feature_flags/"
KEY = "switched"
# A process that has an old flag for so long never gets the new one.
MAX_LAG_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    sent_s: float
    received_s: float
    value: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`next_sent_s` is when the change after it was sent."""

    acknowledged_s: float
    next_sent_s: float
    value: bool


@dataclass(slots=True)
class Figures:
    answers: int = 0
    stale: int = 0
    # Per change and client.
    lags_s: list[float] = field(default_factory=list)
    acknowledged_after_s: list[float] = field(default_factory=list)


class Connection:
    """A kept-alive connection to one process."""

    def __init__(self, address: str) -> None:
        self._http = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
        self.process = ""

    def send(self, method: str, path: str, body: Any) -> Any:
        headers = {"Authorization": f"Bearer {PERSONAL_KEY}", "Content-Type": "application/json"}
        self._http.request(method, path, json.dumps(body), headers)
        response = self._http.getresponse()
        found = json.loads(response.read())
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {found}")
        self.process = response.headers["x-request-id"].partition("-")[0]
        return found

    def decide(self) -> bool:
        body = {"api_key": PROJECT_KEY, "distinct_id": "ann", "person_properties": {"plan": "pro"}}
        answer = self.send("POST", "/decide?v=3", body)
        return bool(answer["featureFlags"].get(KEY, False))

    def close(self) -> None:
        self._http.close()


class DecideClient:
    """Evaluates the flag on one process until it is stopped."""

    def __init__(self, connection: Connection, pause_s: float) -> None:
        self.answers: list[Answer] = []
        self._connection = connection
        self._pause_s = pause_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.wait(self._pause_s):
            sent_s = time.monotonic()
            value = self._connection.decide()
            self.answers.append(Answer(sent_s=sent_s, received_s=time.monotonic(), value=value))

    def wait_for(self, value: bool, since_s: float) -> None:
        """Wait until an answer to a request sent since then has the value."""
        deadline = time.monotonic() + MAX_LAG_S
        while time.monotonic() < deadline:
            last = self.answers[-1] if self.answers else None
            if last is not None and last.sent_s >= since_s and last.value is value:
                return
            time.sleep(0.001)

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()


@contextmanager
def run_service(store: str, processes: int) -> Iterator[LiveServer]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = {"rate_limits_enabled": "false"}
        if store == "postgresql":
            postgres = PostgresTestServer()
            stack.callback(postgres.close)
            clickhouse = ClickHouseTestServer(folder / "clickhouse")
            stack.callback(clickhouse.kill)
            settings |= {
                "database_url": postgres.create_database(),
                "clickhouse_url": clickhouse.create_database(),
                "encryption_keys": generate_encryption_key(),
            }
        yield stack.enter_context(
            LiveServer(folder / "data", "--processes", str(processes), **settings)
        )


def connect_to_all(address: str, processes: int) -> list[Connection]:
    """Connect until each process has a connection."""
    found: dict[str, Connection] = {}
    while len(found) < processes:
        connection = Connection(address)
        connection.decide()
        if found.setdefault(connection.process, connection) is not connection:
            connection.close()
            time.sleep(0.05)
    return list(found.values())


def create_flags(client: Connection, number: int) -> str:
    """Create flags beside the one that changes, and return its path."""
    condition = {"key": "plan", "value": "pro", "type": "person", "operator": "exact"}
    filters = {"groups": [{"properties": [condition], "rollout_percentage": 100}]}
    for each in range(number):
        client.send("POST", FLAGS, {"key": f"other-{each}", "name": "", "filters": filters})
    made = client.send("POST", FLAGS, {"key": KEY, "name": "", "filters": filters})
    return f"{FLAGS}{made['id']}/"


def measure(store: str, options: argparse.Namespace) -> Figures:
    with run_service(store, options.processes) as server, ExitStack() as stack:
        writers = connect_to_all(server.address, options.processes)
        path = create_flags(writers[0], options.flags)
        clients = []
        for _ in range(options.clients):
            for connection in connect_to_all(server.address, options.processes):
                clients.append(DecideClient(connection, options.pause_ms / 1000))
                stack.callback(clients[-1].stop)
        for client in clients:
            client.wait_for(True, 0)
        changes, figures = [], Figures()
        order = random.Random(0)
        for number in range(options.changes):
            value = number % 2 == 1
            sent_s = time.monotonic()
            writers[number % len(writers)].send("PATCH", path, {"active": value})
            acknowledged_s = time.monotonic()
            figures.acknowledged_after_s.append(acknowledged_s - sent_s)
            for client in clients:
                client.wait_for(value, acknowledged_s)
            time.sleep(order.uniform(0, 0.05))
            changes.append(
                Change(acknowledged_s=acknowledged_s, next_sent_s=time.monotonic(), value=value)
            )
        stack.close()
    for client in clients:
        for change in changes:
            count_answers(client.answers, change, figures)
    return figures


def count_answers(answers: Sequence[Answer], change: Change, figures: Figures) -> None:
    after = [each for each in answers if change.acknowledged_s <= each.sent_s < change.next_sent_s]
    stale = [each for each in after if each.value is not change.value]
    figures.answers += len(after)
    figures.stale += len(stale)
    figures.lags_s.append(stale[-1].received_s - change.acknowledged_s if stale else 0.0)


def quantile_ms(seconds: Sequence[float], share: float) -> float:
    ordered = sorted(seconds)
    return 1000 * ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--stores", nargs="+", default=["embedded", "postgresql"])
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--changes", type=int, default=300)
    parser.add_argument("--flags", type=int, default=100)
    parser.add_argument("--pause-ms", type=float, default=2)
    parser.add_argument("--clients", type=int, default=1)
    options = parser.parse_args()
    print(
        "store       processes  changes  answers  stale   lag ms: p50    p90    p99    max"
        "   acknowledged ms: p50    p99    max"
    )
    for store in options.stores:
        found = measure(store, options)
        lags = [quantile_ms(found.lags_s, share) for share in (0.5, 0.9, 0.99, 1)]
        taken = [quantile_ms(found.acknowledged_after_s, share) for share in (0.5, 0.99, 1)]
        print(
            f"{store:10s}  {options.processes:9d}  {options.changes:7d}  {found.answers:7d}"
            f"  {found.stale:5d}  {lags[0]:11.0f} {lags[1]:6.0f} {lags[2]:6.0f} {lags[3]:6.0f}"
            f"  {taken[0]:21.0f} {taken[1]:6.0f} {taken[2]:6.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
