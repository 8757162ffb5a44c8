"""Whether reads include acknowledged events, and how long they take for it.

    python -m benchmarks.read_after_write [--processes 0 1 2 4] [--pairs 200] [--clients 1]
        [--queries 20] [--seconds 300] [--nats]

A client captures an event and evaluates flags as soon as the event is acknowledged, with any two of
the processes. The pairs take turns: a property of the same distinct id, of another distinct id of
the person, of a distinct id that is merged, of a group, and of a cohort. Then it captures an event
and counts such events with HogQL. 0 processes is one process on SQLite with the embedded event
store, the reference; others share PostgreSQL and a stand-in for ClickHouse, with `--nats` also the
inbox in NATS. The pairs end after
`--seconds`, if they are not done by then.

The table shows the wrong answers, which must be none; how long `/decide` and the query took, with
the ratio to the reference of the same run; `/decide` without a new event; the CPU time of all
processes of Hedgerow per pair, which a busy machine changes less; and the CPU time that an idle
process uses per second. All processes share the CPU of this machine. Loopback only.
"""

import argparse
import http.client
import json
import math
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.live import PERSONAL_KEY, PROJECT_KEY, LiveServer
from tests.support.nats import NatsTestServer
from tests.support.postgres import PostgresTestServer

from hedgerow.lib.encryption import generate_encryption_key

PERSONS = 50
TIMEOUT_S = 120.0
IDLE_S = 5.0
# Processes learn of new flags within this time.
FLAG_DELAY_S = 2.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

Groups = Mapping[str, str]


@dataclass(slots=True)
class Figures:
    decide_s: list[float] = field(default_factory=list)
    settled_s: list[float] = field(default_factory=list)
    query_s: list[float] = field(default_factory=list)
    # Answers without the event, with their kind; and answers that say that they may be stale.
    wrong: list[str] = field(default_factory=list)
    errors: int = 0
    ends: float = math.inf
    cpu_ms_per_pair: float = 0.0
    idle_cpu_ms: float = 0.0


class Client:
    """Sends each request to one of the processes."""

    def __init__(self, ports: Sequence[int], seed: int) -> None:
        self._random = random.Random(seed)
        self._connections = [
            http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S) for port in ports
        ]

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        connection = self._random.choice(self._connections)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {PERSONAL_KEY}"}
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status not in (200, 201):
            raise SystemExit(f"POST {path}: {response.status} {answer}")
        return answer

    def capture(self, distinct_id: str, event: str, **properties: Any) -> None:
        body = {"api_key": PROJECT_KEY, "distinct_id": distinct_id, "event": event}
        self.post("/capture/", {**body, "properties": properties})

    def decide(self, distinct_id: str, groups: Groups) -> Any:
        body = {"api_key": PROJECT_KEY, "distinct_id": distinct_id, "groups": groups}
        return self.post("/decide?v=3", body)


@dataclass(frozen=True, slots=True)
class Pair:
    """Send the event that decides whether a flag is on, and evaluate this flag."""

    flag: str
    send: Callable[[Client, str, bool], None]
    prepare: Callable[[Client, str], None] = lambda client, person: None
    groups: Callable[[str], Groups] = lambda person: {}
    # Each time with another person.
    is_once: bool = False


def _set_plan(client: Client, distinct_id: str, is_on: bool) -> None:
    client.capture(distinct_id, "$set", **{"$set": {"plan": "pro" if is_on else "free"}})


def _set_and_merge(client: Client, person: str, is_on: bool) -> None:
    """The anonymous person gets the property, and becomes a new identified one."""
    _set_plan(client, f"{person}-before", is_on)
    client.capture(person, "$identify", **{"$anon_distinct_id": f"{person}-before"})


def _set_group(client: Client, person: str, is_on: bool) -> None:
    plan = "pro" if is_on else "free"
    group = {"$group_type": "company", "$group_key": person, "$group_set": {"plan": plan}}
    client.capture("somebody", "$groupidentify", **group)


PAIRS = {
    "same id": Pair("by_plan", _set_plan),
    "other id": Pair(
        "by_plan",
        lambda client, person, is_on: _set_plan(client, f"{person}-before", is_on),
        lambda client, person: client.capture(
            person, "$identify", **{"$anon_distinct_id": f"{person}-before"}
        ),
    ),
    "merge": Pair("by_plan", _set_and_merge, is_once=True),
    "group": Pair("by_company", _set_group, groups=lambda person: {"company": person}),
    "cohort": Pair("by_cohort", _set_plan),
}


def create_flags(client: Client) -> None:
    by_plan = {"key": "plan", "value": "pro", "type": "person", "operator": "exact"}
    cohort = client.post(
        "/api/projects/1/cohorts/",
        {
            "name": "Pro",
            "filters": {
                "properties": {"type": "OR", "values": [{"type": "AND", "values": [by_plan]}]}
            },
        },
    )
    client.capture("somebody", "$groupidentify", **{"$group_type": "company", "$group_key": "x"})
    by_group = {**by_plan, "type": "group", "group_type_index": 0}
    by_cohort = {"key": "id", "value": cohort["id"], "type": "cohort"}
    filters: dict[str, dict[str, Any]] = {
        "by_plan": {"groups": [{"properties": [by_plan]}]},
        "by_company": {
            "groups": [{"properties": [by_group]}],
            "aggregation_group_type_index": 0,
        },
        "by_cohort": {"groups": [{"properties": [by_cohort]}]},
    }
    for key, each in filters.items():
        client.post("/api/projects/1/feature_flags/", {"key": key, "filters": each})


@contextmanager
def run_servers(processes: int, *, has_nats: bool) -> Iterator[list[LiveServer]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings: dict[str, str] = {}
        if processes:
            postgres = PostgresTestServer()
            stack.callback(postgres.close)
            clickhouse = ClickHouseTestServer(folder / "clickhouse")
            stack.callback(clickhouse.kill)
            settings = {
                "database_url": postgres.create_database(),
                "clickhouse_url": clickhouse.create_database(),
                "encryption_keys": generate_encryption_key(),
            }
            if has_nats:
                settings["inbox_url"] = stack.enter_context(NatsTestServer(folder / "nats")).url
        yield [
            stack.enter_context(LiveServer(folder / str(number), **settings))
            for number in range(max(1, processes))
        ]


def run_pairs(client: Client, name: str, number: int, figures: Figures) -> None:
    kinds = list(PAIRS.items())
    for step in range(number):
        if time.monotonic() > figures.ends:
            return
        kind, pair = kinds[step % len(kinds)]
        turn, place = divmod(step // len(kinds), PERSONS)
        person, is_on = f"{name}-{kind}-{place}", turn % 2 == 0
        if pair.is_once:
            person, is_on = f"{person}-{turn}", True
        if not turn:
            pair.prepare(client, person)
        pair.send(client, person, is_on)
        started = time.perf_counter()
        answer = client.decide(person, pair.groups(person))
        figures.decide_s.append(time.perf_counter() - started)
        if answer["errorsWhileComputingFlags"]:
            figures.errors += 1
        elif answer["featureFlags"][pair.flag] is not is_on:
            figures.wrong.append(kind)


def run_queries(client: Client, number: int, figures: Figures) -> None:
    query = {"kind": "HogQLQuery", "query": "select count() from events where event = 'counted'"}
    for count in range(1, number + 1):
        client.capture(f"counted-{count}", "counted")
        started = time.perf_counter()
        answer = client.post("/api/projects/1/query/", {"query": query})
        figures.query_s.append(time.perf_counter() - started)
        if answer["results"] != [[count]]:
            figures.wrong.append("query")


def measure(processes: int, options: argparse.Namespace) -> Figures:
    figures = Figures()
    with run_servers(processes, has_nats=options.nats) as servers:
        ports = [urlsplit(server.address).port or 0 for server in servers]
        first = Client(ports, seed=0)
        create_flags(first)
        time.sleep(FLAG_DELAY_S)
        run_pairs(first, "warm", 5 * len(servers), Figures())
        figures.ends = time.monotonic() + options.seconds
        before, threads = read_cpu_ms(servers), []
        for number in range(options.clients):
            client = Client(ports, seed=number + 1)
            pairs = options.pairs // options.clients
            arguments = (client, f"person-{number}", pairs, figures)
            threads.append(threading.Thread(target=run_pairs, args=arguments))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        pairs = max(1, len(figures.decide_s))
        figures.cpu_ms_per_pair = (read_cpu_ms(servers) - before) / pairs
        # The service has closed idle connections.
        first = Client(ports, seed=0)
        run_queries(first, options.queries, figures)
        time.sleep(1)
        for _ in range(options.queries):
            started = time.perf_counter()
            first.decide("person-0-same id-0", {})
            figures.settled_s.append(time.perf_counter() - started)
        before = read_cpu_ms(servers)
        time.sleep(IDLE_S)
        figures.idle_cpu_ms = (read_cpu_ms(servers) - before) / IDLE_S / len(servers)
    return figures


def read_cpu_ms(servers: Sequence[LiveServer]) -> float:
    """Return the CPU time of the processes, without children."""
    ticks = 0
    for server in servers:
        stat = Path(f"/proc/{server.process.pid}/stat").read_text()
        ticks += sum(map(int, stat.rpartition(")")[2].split()[11:13]))
    return 1000 * ticks / TICKS_PER_S


def _quantile_ms(seconds: Sequence[float], share: float) -> float:
    ordered = sorted(seconds)
    return 1000 * ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--processes", type=int, nargs="+", default=[0, 1, 2, 4])
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--nats", action="store_true")
    options = parser.parse_args()
    print(
        "processes  pairs  wrong  errors   decide ms: p50    p90    p99  ratio   settled  CPU/pair"
        "   query ms: p50  ratio   idle CPU ms/s   load"
    )
    reference: Figures | None = None
    for processes in options.processes:
        found = measure(processes, options)
        reference = reference or found
        p50, p90, p99 = (_quantile_ms(found.decide_s, share) for share in (0.5, 0.9, 0.99))
        query = _quantile_ms(found.query_s, 0.5)
        print(
            f"{processes:9d}  {len(found.decide_s):5d}  {len(found.wrong):5d}  {found.errors:6d}"
            f"  {p50:15.0f} {p90:6.0f} {p99:6.0f}"
            f" {p50 / _quantile_ms(reference.decide_s, 0.5):6.1f}"
            f" {_quantile_ms(found.settled_s, 0.5):9.1f} {found.cpu_ms_per_pair:9.1f}"
            f" {query:15.0f} {query / _quantile_ms(reference.query_s, 0.5):6.1f}"
            f" {found.idle_cpu_ms:15.0f} {os.getloadavg()[0]:6.1f}",
            flush=True,
        )
        if found.wrong:
            print("  wrong:", {kind: found.wrong.count(kind) for kind in set(found.wrong)})


if __name__ == "__main__":
    main()
