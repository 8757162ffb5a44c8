"""`hedgerow serve --processes 2`: one service, whichever process answers."""

import http.client
import itertools
import json
import os
import platform
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest

from hedgerow.cli.installation.malloc import HEAP_COUNT
from hedgerow.lib.encryption import generate_encryption_key
from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.live import PERSONAL_KEY, PROJECT_KEY, LiveServer, find_free_port, wait_for
from tests.support.postgres import PostgresTestServer

EVENT = {"event": "seen", "distinct_id": "heaps"}
# What glibc reserves for a heap, aligned to its size.
HEAP_BYTES = 64 << 20
KEY = {"Authorization": f"Bearer {PERSONAL_KEY}"}
FLAGS: list[dict[str, Any]] = [
    {"key": "half", "filters": {"groups": [{"properties": [], "rollout_percentage": 50}]}},
    {
        "key": "pro",
        "filters": {
            "groups": [{"properties": [{"key": "plan", "value": "pro", "type": "person"}]}],
            "payloads": {"true": '{"limit": 5}'},
        },
    },
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """On SQLite: the owner of the data, and a reader."""
    data = tmp_path_factory.mktemp("processes")
    settings = {"shutdown_drain_s": "1", "port": find_free_port()}
    with LiveServer(data, "--processes", "2", **settings) as running:
        with running.client() as client:
            for flag in FLAGS:
                made = client.post(
                    "/api/projects/1/feature_flags/", json={"name": "", "active": True, **flag}
                )
                assert made.status_code == 201, made.text
        decide(running.address)
        yield running


def send(server: LiveServer, method: str, path: str, **more: Any) -> httpx.Response:
    """Send a request on a connection of its own, which any process may get."""
    return httpx.request(method, server.address + path, timeout=60, verify=False, **more)


def get_process(answer: httpx.Response) -> str:
    """Return the part of the request id that each process has for itself."""
    return answer.headers["x-request-id"].partition("-")[0]


def ask_both(ask: Callable[[], httpx.Response]) -> list[httpx.Response]:
    """Repeat a request until two processes have answered it."""
    answers: dict[str, httpx.Response] = {}

    def has_both() -> bool:
        answer = ask()
        answers[get_process(answer)] = answer
        return len(answers) == 2

    wait_for(has_both, 60)
    return list(answers.values())


def decide(address: str, **body: Any) -> httpx.Response:
    return httpx.post(
        f"{address}/decide?v=3",
        json={"api_key": PROJECT_KEY, "distinct_id": "ann", **body},
        timeout=60,
        verify=False,
    )


def list_children(server: LiveServer) -> list[int]:
    """Return the process ids of the supervised processes, in the order of their numbers."""
    pid = server.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sorted(map(int, children), key=_is_reader)


def _is_reader(pid: int) -> bool:
    with suppress(OSError):
        return b"processes.reader" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def has_ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_both_processes_give_the_same_answers(server: LiveServer) -> None:
    with server.client() as client:
        secret = client.patch("/api/projects/1/rotate_secret_token/").json()["secret_api_token"]
    body = {"api_key": PROJECT_KEY, "distinct_id": "ann", "person_properties": {"plan": "pro"}}
    preflight = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    requests: list[tuple[str, str, dict[str, Any]]] = [
        *(("POST", f"/decide?v={number}", {"json": body}) for number in (1, 2, 3, 4)),
        ("POST", "/flags?v=2", {"json": body}),
        ("POST", "/flags?v=2&config=true", {"json": body, "headers": {"Origin": "https://a.b"}}),
        # The flag needs the stored plan.
        ("POST", "/flags?v=2", {"json": {"api_key": PROJECT_KEY, "distinct_id": "ben"}}),
        ("POST", "/decide", {"json": {**body, "api_key": "phc_unknown"}}),
        ("POST", "/decide", {"content": b"{"}),
        ("OPTIONS", "/decide", {"headers": preflight}),
        (
            "POST",
            "/ofrep/v1/evaluate/flags",
            {
                "json": {"context": {"targetingKey": "ann", "plan": "pro"}},
                "headers": {"Authorization": f"Bearer {PROJECT_KEY}"},
            },
        ),
        ("GET", "/flags/definitions", {"headers": KEY}),
        ("GET", "/flags/definitions", {"headers": {"Authorization": f"Bearer {secret}"}}),
        ("GET", "/flags/definitions", {"headers": {"Authorization": "Bearer phs_unknown"}}),
        ("GET", f"/array/{PROJECT_KEY}/config", {}),
        ("GET", "/api/projects/", {"headers": KEY}),
        ("HEAD", "/api/projects/", {"headers": KEY}),
        ("GET", "/api/projects/", {}),
        ("POST", "/api/projects/1/feature_flags/", {"headers": KEY, "content": b'{"key": 1}'}),
        ("POST", "/capture/", {"json": {**body, "event": "seen"}}),
        ("POST", "/capture/", {"json": {"event": "seen"}}),
        ("GET", "/static/array.js", {}),
        ("GET", "/nothing%2Fhere", {}),
    ]
    changing = ("date", "x-request-id")
    for method, path, more in requests:
        one, two = ask_both(lambda: send(server, method, path, **more))  # noqa: B023 - runs here
        assert one.status_code == two.status_code, path
        assert _without_ids(one) == _without_ids(two), path
        headers = [
            {name: value for name, value in each.headers.items() if name not in changing}
            for each in (one, two)
        ]
        assert headers[0].keys() == headers[1].keys(), path
        if one.headers.get("content-type") != "application/json":
            assert headers[0] == headers[1], path


def _without_ids(answer: httpx.Response) -> Any:
    try:
        found = answer.json()
    except ValueError:
        return answer.content
    if isinstance(found, dict):
        for each in ("requestId", "evaluatedAt"):
            found.pop(each, None)
    return found


def test_evaluation_sees_events_and_changes_of_another_process(server: LiveServer) -> None:
    """A captured event counts at once, and so do a new project and its flag."""
    for number in range(8):
        id = f"buyer-{number}"
        event = {"api_key": PROJECT_KEY, "event": "bought", "distinct_id": id}
        sent = send(server, "POST", "/capture/", json={**event, "$set": {"plan": "pro"}})
        assert sent.status_code == 200
        found = decide(server.address, distinct_id=id).json()
        assert found["featureFlags"]["pro"] is True
        assert found["errorsWhileComputingFlags"] is False
    with server.client() as client:
        project = client.post("/api/projects/", json={"name": "new"}).json()
        flag = {"key": "new", "name": "", "active": True, "filters": {"groups": [{}]}}
        made = client.post(f"/api/projects/{project['id']}/feature_flags/", json=flag)
        assert made.status_code == 201

    # No process refuses a project that it has not heard of yet.
    answers = ask_both(lambda: decide(server.address, api_key=project["api_token"]))
    assert [each.json()["featureFlags"] for each in answers] == [{"new": True}] * 2


class ProcessClients:
    """A kept-alive connection to each of two processes."""

    def __init__(self, server: LiveServer) -> None:
        self._clients: dict[str, httpx.Client] = {}
        self._server = server
        wait_for(self._has_both, 60)

    def _has_both(self) -> bool:
        client = httpx.Client(base_url=self._server.address, timeout=60, verify=False)
        process = get_process(client.get("/_liveness"))
        if self._clients.setdefault(process, client) is not client:
            client.close()
        return len(self._clients) == 2

    def find_values(self, flag: str) -> list[bool]:
        """Evaluate a flag once with each process."""
        body = {"api_key": PROJECT_KEY, "distinct_id": "ann", "person_properties": {"plan": "pro"}}
        answers = [each.post("/decide?v=3", json=body).json() for each in self._clients.values()]
        return [each["featureFlags"][flag] for each in answers]

    def __enter__(self) -> "ProcessClients":
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._clients.values():
            each.close()


def create_flag(client: httpx.Client, key: str) -> str:
    """Create a flag that is on for everyone, and return its path."""
    flag = {"key": key, "filters": {"groups": [{}]}}
    made = client.post("/api/projects/1/feature_flags/", json=flag)
    assert made.status_code == 201, made.text
    return f"/api/projects/1/feature_flags/{made.json()['id']}/"


def create_flag_of_cohort(client: httpx.Client) -> tuple[str, str]:
    """Create a flag for the persons of a cohort with the plan pro, and return the paths of both."""
    cohort = client.post("/api/projects/1/cohorts/", json=describe_cohort("pro")).json()
    condition = {"key": "id", "type": "cohort", "value": cohort["id"]}
    flag = {"key": f"of-{uuid4()}", "filters": {"groups": [{"properties": [condition]}]}}
    made = client.post("/api/projects/1/feature_flags/", json=flag)
    assert made.status_code == 201, made.text
    key = made.json()["key"]
    return key, f"/api/projects/1/cohorts/{cohort['id']}/"


def describe_cohort(plan: str) -> dict[str, Any]:
    condition = {"key": "plan", "type": "person", "value": plan, "operator": "exact"}
    groups = [{"type": "AND", "values": [condition]}]
    return {"name": "Of a plan", "filters": {"properties": {"type": "OR", "values": groups}}}


def test_an_acknowledged_change_is_in_use_by_every_process(server: LiveServer) -> None:
    with ProcessClients(server) as processes, server.client() as client:
        path = create_flag(client, "switched")
        of_cohort, cohort = create_flag_of_cohort(client)
        for number in range(20):
            is_on = number % 2 == 0
            assert client.patch(path, json={"active": is_on}).status_code == 200
            assert processes.find_values("switched") == [is_on] * 2
            changed = client.patch(cohort, json=describe_cohort("pro" if is_on else "free"))
            assert changed.status_code == 200
            assert processes.find_values(of_cohort) == [is_on] * 2


def test_a_frozen_reader_is_replaced_before_a_change_is_acknowledged(server: LiveServer) -> None:
    with server.client() as client:
        path = create_flag(client, "frozen")
        ask_both(lambda: decide(server.address))
        owner, reader = list_children(server)
        os.kill(reader, signal.SIGSTOP)
        with httpx.Client(base_url=server.address, headers=KEY, timeout=60) as direct:
            changed = direct.patch(path, json={"active": False})
        assert changed.status_code == 200
        assert has_ended(reader)
        with ProcessClients(server) as processes:
            assert processes.find_values("frozen") == [False, False]
        assert list_children(server)[0] == owner
        assert "process 1 does not answer" in server.errors


def test_readers_of_an_owner_that_restarted_are_waited_for(server: LiveServer) -> None:
    with server.client() as client:
        path = create_flag(client, "restarted")
    with ProcessClients(server) as processes:
        assert processes.find_values("restarted") == [True, True]
    owner, reader = list_children(server)
    os.kill(owner, signal.SIGKILL)
    wait_for(lambda: owner not in list_children(server), 60)

    def change() -> bool:
        with suppress(httpx.TransportError):
            answer = send(server, "PATCH", path, json={"active": False}, headers=KEY)
            return answer.status_code == 200
        return False

    # The first change that the new owner acknowledges.
    wait_for(change, 60)
    with ProcessClients(server) as processes:
        assert processes.find_values("restarted") == [False, False]
    assert list_children(server)[1] == reader


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other heaps")
def test_threads_of_the_owner_share_heaps(server: LiveServer) -> None:
    """Heaps of their own keep what threads have freed, and grow for hours."""
    (owner,) = (pid for pid in list_children(server) if not _is_reader(pid))
    sent = send(server, "POST", "/capture/", json={"api_key": PROJECT_KEY, **EVENT})
    assert sent.status_code == 200
    path = f"/api/projects/1/events/?distinct_id={EVENT['distinct_id']}"
    assert send(server, "GET", path, headers=KEY).json()["results"]
    threads = len(os.listdir(f"/proc/{owner}/task"))
    assert threads > HEAP_COUNT
    # The first heap is that of the main thread.
    assert count_thread_heaps(owner) < HEAP_COUNT


def count_thread_heaps(pid: int) -> int:
    """Count the regions that glibc reserves for heaps of threads."""
    text = Path(f"/proc/{pid}/maps").read_text()
    regions = re.findall("^([0-9a-f]+)-([0-9a-f]+) (....)", text, re.MULTILINE)
    count = 0
    for (first, _, access), (_, last, rest) in itertools.pairwise(regions):
        start, end = int(first, 16), int(last, 16)
        is_heap = start % HEAP_BYTES == 0 and end - start == HEAP_BYTES
        count += is_heap and (access, rest) == ("rw-p", "---p")
    return count


def test_streams_pass_through(server: LiveServer) -> None:
    path = "/api/projects/1/feature_flags/stream/"

    def read_first_line() -> httpx.Response:
        address = server.address + path
        with httpx.stream("GET", address, headers=KEY, timeout=60, verify=False) as answer:
            assert next(answer.iter_lines()) == "event: definitions"
            return answer

    ask_both(read_first_line)


class SteadyLoad:
    """Clients that evaluate flags and capture events on kept-alive connections, and connect to
    another process after an answer that closes theirs. Each load has an event of its own."""

    def __init__(self, server: LiveServer, clients: int = 4) -> None:
        self._server = urlsplit(server.address).netloc
        self._is_over = threading.Event()
        self.event = f"load {uuid4()}"
        self.failures: list[str] = []
        self.acknowledged = self.evaluated = 0
        self._threads = [
            threading.Thread(target=self._run, args=(each,)) for each in range(clients)
        ]

    def __enter__(self) -> "SteadyLoad":
        for each in self._threads:
            each.start()
        wait_for(lambda: self.acknowledged > 5, 60)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for each in self._threads:
            each.join(60)

    def _run(self, number: int) -> None:
        connection: http.client.HTTPConnection | None = None
        event = {"event": self.event, "distinct_id": f"client-{number}"}
        for path in itertools.cycle(("/decide?v=3", "/capture/")):
            if connection is None:
                connection = self._connect()
            if connection is None:
                return
            try:
                answer = self._send(connection, path, event)
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
                connection.close()
                connection = None
                continue
            if answer.status != 200:
                self.failures.append(f"{path} {answer.status}")
            elif path == "/capture/":
                self.acknowledged += 1
            else:
                self.evaluated += 1
            if answer.will_close or self._is_over.wait(0.01):
                connection.close()
                connection = None

    def _connect(self) -> http.client.HTTPConnection | None:
        """Connect to a process that is ready, as a balancer does. Return None if the load or the
        service has stopped."""
        while not self._is_over.wait(0.01):
            connection = http.client.HTTPConnection(self._server, timeout=60)
            try:
                connection.request("GET", "/_readiness")
                answer = connection.getresponse()
                answer.read()
            except ConnectionRefusedError:
                return None
            except (OSError, http.client.HTTPException):
                connection.close()
                continue
            if answer.status == 200 and not answer.will_close:
                return connection
            connection.close()
        return None

    def _send(
        self, connection: http.client.HTTPConnection, path: str, event: dict[str, str]
    ) -> http.client.HTTPResponse:
        connection.request("POST", path, json.dumps({"api_key": PROJECT_KEY, **event}))
        answer = connection.getresponse()
        answer.read()
        return answer


def count_load(server: LiveServer, load: SteadyLoad) -> int:
    sql = f"SELECT count() FROM events WHERE event = '{load.event}'"
    query = {"kind": "HogQLQuery", "query": sql}
    with server.client() as client:
        answer = client.post("/api/projects/1/query/", json={"query": query})
    assert answer.status_code == 200, answer.text
    count: int = answer.json()["results"][0][0]
    return count


def end_and_await_another(
    server: LiveServer, number: int, by: signal.Signals, load: SteadyLoad
) -> None:
    """End one of two processes. Return once another one runs and the load goes on."""
    ended = list_children(server)[number]
    os.kill(ended, by)
    wait_for(lambda: ended not in list_children(server), 60)
    wait_for(lambda: len(list_children(server)) == 2, 60)
    seen = load.acknowledged
    wait_for(lambda: load.acknowledged > seen + 5, 120)


def test_a_killed_process_is_replaced_and_loses_nothing(server: LiveServer) -> None:
    with SteadyLoad(server) as load:
        for number in (1, 0):
            end_and_await_another(server, number, signal.SIGKILL, load)
        ask_both(lambda: decide(server.address))
    # An event whose answer was lost with the process may be stored too.
    wait_for(lambda: count_load(server, load) >= load.acknowledged, 120)
    assert count_load(server, load) <= load.acknowledged + len(load.failures)
    assert "starting another one" in server.errors


def test_sigterm_replaces_each_process_without_a_failed_request(server: LiveServer) -> None:
    """The owner of the data, too: it does not wait for its readers, which go on."""
    ask_both(lambda: decide(server.address))
    with SteadyLoad(server) as load:
        for number in (0, 1):
            end_and_await_another(server, number, signal.SIGTERM, load)
        ask_both(lambda: decide(server.address))
    assert load.failures == []
    wait_for(lambda: count_load(server, load) == load.acknowledged, 120)


def test_sigterm_drains_without_a_failed_request(tmp_path: Path) -> None:
    settings = {"shutdown_drain_s": "2", "port": find_free_port()}
    with LiveServer(tmp_path, "--processes", "3", **settings) as server:
        ask_both(lambda: decide(server.address))
        children = list_children(server)
        with SteadyLoad(server) as load:
            assert server.stop(signal.SIGTERM) == 0
        assert load.failures == []
        assert load.evaluated > 0
        assert all(map(has_ended, children))
    # The port is free, and the events are there.
    with LiveServer(tmp_path, **settings) as server:
        wait_for(lambda: count_load(server, load) == load.acknowledged, 60)
        # Two services on one port are refused, although the processes of one share it.
        refused = LiveServer(tmp_path / "other", "--processes", "2", **settings)
        assert refused.process.wait(60) == 1
        refused.stop()
        assert "Cannot listen on 127.0.0.1" in refused.errors


def test_processes_end_with_their_supervisor(tmp_path: Path) -> None:
    with LiveServer(tmp_path, "--processes", "2") as server:
        ask_both(lambda: decide(server.address))
        children = list_children(server)
        server.kill()
        wait_for(lambda: all(map(has_ended, children)), 60)


def test_one_interrupt_stops_all(server: LiveServer) -> None:
    children = list_children(server)
    assert server.stop(signal.SIGINT) == 0
    assert all(map(has_ended, children))
    assert "Traceback" not in server.errors


def test_processes_on_postgresql(
    tmp_path: Path, postgres: PostgresTestServer, clickhouse: ClickHouseTestServer
) -> None:
    """Whole services: each can change and restart, while the others go on."""
    settings = {
        "database_url": postgres.create_migrated_database(),
        "clickhouse_url": clickhouse.create_database(),
        "encryption_keys": generate_encryption_key(),
        "shutdown_drain_s": "2",
    }
    with LiveServer(tmp_path, "--processes", "2", **settings) as server:
        assert server.output.count("Personal key") == 1
        ask_both(lambda: decide(server.address))
        with SteadyLoad(server) as load:
            for child in list_children(server):
                os.kill(child, signal.SIGTERM)
                wait_for(lambda: child not in list_children(server), 60)  # noqa: B023 - runs here
                ask_both(lambda: decide(server.address))
            assert server.stop(signal.SIGTERM) == 0
        assert load.failures == []
