"""posthog-python and posthog-node behind a failing proxy, and with a server that stops.

By their source code, both resend events with the same uuids after broken connections, timeouts and
5xx. Remote evaluation returns no value during an outage; local evaluation keeps its definitions.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.contract.sdk.projects import Project
from tests.contract.sdk.sdk_process import PER_EVENT, SDKS, Sdk, SdkProcess, start_installed
from tests.support.faulty_proxy import Fault, FaultyProxy
from tests.support.live import (
    PERSONAL_KEY,
    PROJECT_KEY,
    LiveServer,
    find_free_port,
    run_concurrently,
    wait_for,
)

# Events per batch, and the poll interval of definitions.
BATCH_SIZE = 5
POLL_INTERVAL_S = 0.1
CAPTURE_INTERVAL_S = 0.03
# After so many requests, an attempt has failed: posthog-python makes up to three per attempt.
FAILED_AFTER_REQUESTS = 4
# Faults in which the server stores events that the client considers lost.
STORED_FAULTS = {Fault.LOSES_ANSWERS, Fault.CUTS_ANSWERS, Fault.DELAYS}


@pytest.fixture(scope="module")
def project(project: Project) -> Project:
    project.create_flag("on")
    return project


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[Sdk, SdkProcess]]:
    with ExitStack() as open_:
        yield start_installed(open_, SDKS + PER_EVENT)


def open_client(client: SdkProcess, host: str, token: str, **options: Any) -> None:
    client.open(**{"host": host, "token": token, "secret": None, **options})


def capture_number(client: SdkProcess, id: str, n: int) -> None:
    client.capture(id=id, event="numbered", properties={"n": n})


def check_every_fault(sdk: Sdk, client: SdkProcess, live: LiveServer, project: Project) -> None:
    """Use a client per fault, so that their retry delays overlap."""
    with ExitStack() as open_:
        for fault in Fault:
            proxy = open_.enter_context(FaultyProxy(live.address))
            timeout = {"timeout_s": 1} if fault is Fault.DELAYS else {}
            open_client(
                client, proxy.address, project.token, name=fault.value, retries=60, **timeout
            )
            proxy.fail(fault)
            for n in range(BATCH_SIZE):
                capture_number(client, f"{sdk.name} {fault.value}", n)
            assert client.flag(key="on", id="x") is None, (sdk, fault)
            proxy.wait_for_faults(sdk.capture_path)
            proxy.heal()
            wait_for(lambda: client.flag(key="on", id="x") is True, at_most_s=60)
            proxy.wait_until_idle()
        for fault in Fault:
            id = f"{sdk.name} {fault.value}"
            client.use(name=fault.value)

            def is_stored(id: str = id) -> bool:
                client.flush()  # the older posthog-node sends the events captured during its retry
                return set(project.numbers(id)) == set(range(BATCH_SIZE))

            wait_for(is_stored, at_most_s=60)
            duplicates = len(project.numbers(id)) - BATCH_SIZE
            if sdk.sends_uuids or fault not in STORED_FAULTS:
                assert duplicates == 0, (sdk, fault)
            elif fault is Fault.LOSES_ANSWERS:
                assert duplicates > 0, sdk  # it was resent and stored as another event


def test_queued_events_arrive_after_an_outage(
    clients: dict[Sdk, SdkProcess], live: LiveServer, project: Project
) -> None:
    run_concurrently(
        [partial(check_every_fault, sdk, client, live, project) for sdk, client in clients.items()]
    )


def check_resent_properties(
    sdk: Sdk, client: SdkProcess, live: LiveServer, project: Project
) -> None:
    id = f"{sdk.name} changed"
    with FaultyProxy(live.address) as proxy:
        open_client(client, proxy.address, project.token, retries=60)
        proxy.fail(Fault.LOSES_ANSWERS)
        client.identify(id=id, properties={"plan": "old"})
        wait_for(lambda: bool(project.events(distinct_id=id)), at_most_s=60)
        assert project.person(id)["properties"]["plan"] == "old"
        project.set_person_properties(id, plan="new")
        proxy.heal()
        client.flush()
        proxy.wait_until_idle()
        assert proxy.requests_to(sdk.capture_path)[-1].status == 200  # it was resent
        assert len(project.events(distinct_id=id)) == 2
        assert project.person(id)["properties"]["plan"] == "new"


def test_resent_events_change_no_person(
    clients: dict[Sdk, SdkProcess], live: LiveServer, project: Project
) -> None:
    with_uuids = {sdk: client for sdk, client in clients.items() if sdk.sends_uuids}
    run_concurrently(
        [
            partial(check_resent_properties, sdk, client, live, project)
            for sdk, client in with_uuids.items()
        ]
    )


@pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: sdk.name)
def test_definitions_stay_during_an_outage_and_refresh_after(
    sdk: Sdk, live: LiveServer, project: Project
) -> None:
    with sdk.start() as client, FaultyProxy(live.address) as proxy:
        open_client(
            client, proxy.address, project.token, secret=PERSONAL_KEY, poll_s=POLL_INTERVAL_S
        )
        client.reload()
        for fault in Fault:
            proxy.fail(fault)
            # A client with a pending request does not poll again.
            proxy.wait_for_faults(times=1 if fault is Fault.DELAYS else FAILED_AFTER_REQUESTS)
            assert client.flag(key="on", id="x", local=True) is True, fault
        late = f"late-{sdk.name.replace(' ', '-')}"
        project.create_flag(late)
        proxy.heal()
        wait_for(lambda: client.flag(key=late, id="x", local=True) is True, at_most_s=60)


@dataclass
class BusyClient:
    """A client that captures events one by one and evaluates a flag locally."""

    sdk: Sdk
    client: SdkProcess
    captured: int = 0
    is_on: bool = True

    def work(self, until: threading.Event) -> None:
        while not until.wait(CAPTURE_INTERVAL_S):
            capture_number(self.client, self.sdk.name, self.captured)
            self.captured += 1
            self.is_on = self.is_on and self.client.flag(key="on", id="x", local=True)


def test_stop_and_kill_lose_and_duplicate_no_events(tmp_path: Path) -> None:
    port, stopped = find_free_port(), threading.Event()
    with ThreadPoolExecutor(max_workers=len(SDKS)) as threads, ExitStack() as open_:
        open_.callback(stopped.set)  # before joining the threads
        busy_clients = [
            BusyClient(sdk, client) for sdk, client in start_installed(open_, SDKS).items()
        ]

        def wait_for_progress() -> None:
            """Wait until each client has captured more batches."""
            goals = [(busy, busy.captured + 3 * BATCH_SIZE) for busy in busy_clients]
            wait_for(lambda: all(busy.captured >= goal for busy, goal in goals), at_most_s=60)

        with LiveServer(tmp_path, port=port) as server:
            with server.client() as admin:
                Project(admin=admin, id=1, token=PROJECT_KEY).create_flag("on")
            tasks = []
            for busy in busy_clients:
                keys = {"secret": PERSONAL_KEY, "poll_s": POLL_INTERVAL_S, "retries": 60}
                open_client(busy.client, server.address, PROJECT_KEY, **keys)
                busy.client.reload()
                tasks.append(threads.submit(busy.work, stopped))
            wait_for_progress()
            server.kill()
        with LiveServer(tmp_path, port=port):
            wait_for_progress()
        with LiveServer(tmp_path, port=port) as server, server.client() as admin:
            project = Project(admin=admin, id=1, token=PROJECT_KEY)
            wait_for_progress()
            stopped.set()
            for worker in tasks:
                worker.result()
            for busy in busy_clients:

                def is_stored(busy: BusyClient = busy) -> bool:
                    busy.client.flush()
                    return set(project.numbers(busy.sdk.name)) == set(range(busy.captured))

                wait_for(is_stored, at_most_s=60)
                assert busy.is_on, busy.sdk
                # A kill between commit and response makes the client resend; an event without a
                # uuid is then stored twice.
                duplicates = len(project.numbers(busy.sdk.name)) - busy.captured
                assert duplicates <= (0 if busy.sdk.sends_uuids else BATCH_SIZE), busy.sdk
