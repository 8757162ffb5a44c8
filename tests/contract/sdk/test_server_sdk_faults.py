"""posthog-python and posthog-node behind a proxy that fails, and under a server that goes away.

What the authors of both intend, read in their code: events are sent again after cut connections,
timeouts and 5xx, with the uuids that they had. Flags that were asked for are unknown meanwhile. Who
evaluates flags goes on with the definitions that they have.
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

from tests.contract.sdk.driven import PER_EVENT, SDKS, Driven, Sdk, all_driven
from tests.contract.sdk.projects import Project
from tests.faulty_proxy import Fault, FaultyProxy
from tests.live import (
    PERSONAL_KEY,
    PROJECT_KEY,
    LiveServer,
    free_port,
    seconds_until,
    side_by_side,
)

# As many events make a batch, and so often definitions are asked for.
BATCH = 5
POLL_S = 0.1
PAUSE_S = 0.03
# Who has asked so often has seen an attempt fail: posthog-python makes up to three requests in one.
SEEN_TO_FAIL = 4
# The server has what the client believes to be lost.
HEARD = {Fault.LOSES_ANSWERS, Fault.CUTS_ANSWERS, Fault.DELAYS}


@pytest.fixture(scope="module")
def project(project: Project) -> Project:
    project.makes_flag("on")
    return project


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[Sdk, Driven]]:
    with ExitStack() as open_:
        yield all_driven(open_, SDKS + PER_EVENT)


def opens(client: Driven, host: str, token: str, **more: Any) -> None:
    client.open(**{"host": host, "token": token, "secret": None, **more})


def captures(client: Driven, id: str, n: int) -> None:
    client.capture(id=id, event="numbered", properties={"n": n})


def meets_every_fault(sdk: Sdk, client: Driven, live: LiveServer, project: Project) -> None:
    """With a client for each fault: while one makes its pause, the next meets its own."""
    with ExitStack() as open_:
        for fault in Fault:
            proxy = open_.enter_context(FaultyProxy(live.address))
            patience = {"timeout_s": 0.5} if fault is Fault.DELAYS else {}
            opens(client, proxy.address, project.token, name=fault.value, retries=60, **patience)
            proxy.fail(fault)
            for n in range(BATCH):
                captures(client, f"{sdk.name} {fault.value}", n)
            assert client.flag(key="on", id="x") is None, (sdk, fault)
            proxy.wait_struck(sdk.captures_at)
            proxy.heal()
            seconds_until(lambda: client.flag(key="on", id="x") is True, at_most_s=60)
            proxy.wait_settled()
        for fault in Fault:
            id = f"{sdk.name} {fault.value}"
            client.use(name=fault.value)

            def is_there(id: str = id) -> bool:
                client.flush()  # the older node sends with it what came while it tried again
                return set(project.numbers(id)) == set(range(BATCH))

            seconds_until(is_there, at_most_s=60)
            repeated = len(project.numbers(id)) - BATCH
            if sdk.sends_uuids or fault not in HEARD:
                assert repeated == 0, (sdk, fault)
            elif fault is Fault.LOSES_ANSWERS:
                assert repeated > 0, sdk  # so it was sent again, and was another event


def test_what_clients_held_arrives_once_the_way_is_clear(
    clients: dict[Sdk, Driven], live: LiveServer, project: Project
) -> None:
    side_by_side(
        [partial(meets_every_fault, sdk, client, live, project) for sdk, client in clients.items()]
    )


def sets_again_what_was_set_before(
    sdk: Sdk, client: Driven, live: LiveServer, project: Project
) -> None:
    id = f"{sdk.name} who changed"
    with FaultyProxy(live.address) as proxy:
        opens(client, proxy.address, project.token, retries=60)
        proxy.fail(Fault.LOSES_ANSWERS)
        client.identify(id=id, properties={"plan": "old"})
        seconds_until(lambda: bool(project.events(distinct_id=id)), at_most_s=60)
        assert project.person(id)["properties"]["plan"] == "old"
        project.sets(id, plan="new")
        proxy.heal()
        client.flush()
        proxy.wait_settled()
        assert proxy.seen_at(sdk.captures_at)[-1].status == 200  # it was sent again
        assert len(project.events(distinct_id=id)) == 2
        assert project.person(id)["properties"]["plan"] == "new"


def test_what_is_sent_again_changes_nobody(
    clients: dict[Sdk, Driven], live: LiveServer, project: Project
) -> None:
    with_uuids = {sdk: client for sdk, client in clients.items() if sdk.sends_uuids}
    side_by_side(
        [
            partial(sets_again_what_was_set_before, sdk, client, live, project)
            for sdk, client in with_uuids.items()
        ]
    )


@pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: sdk.name)
def test_definitions_are_kept_while_they_cannot_be_read_and_polled_again_after(
    sdk: Sdk, live: LiveServer, project: Project
) -> None:
    with sdk.driven() as client, FaultyProxy(live.address) as proxy:
        opens(client, proxy.address, project.token, secret=PERSONAL_KEY, poll_s=POLL_S)
        client.reload()
        for fault in Fault:
            proxy.fail(fault)
            # Who is kept waiting asks once, and goes on meanwhile.
            proxy.wait_struck(times=1 if fault is Fault.DELAYS else SEEN_TO_FAIL)
            assert client.flag(key="on", id="x", local=True) is True, fault
        late = f"late-{sdk.name.replace(' ', '-')}"
        project.makes_flag(late)
        proxy.heal()
        seconds_until(lambda: client.flag(key=late, id="x", local=True) is True, at_most_s=60)


@dataclass
class Busy:
    """A client that captures events one by one, and evaluates a flag by itself meanwhile."""

    sdk: Sdk
    client: Driven
    captured: int = 0
    is_on: bool = True

    def work(self, until: threading.Event) -> None:
        while not until.wait(PAUSE_S):
            captures(self.client, self.sdk.name, self.captured)
            self.captured += 1
            self.is_on = self.is_on and self.client.flag(key="on", id="x", local=True)


def test_a_stop_and_a_kill_under_clients_lose_and_repeat_nothing(tmp_path: Path) -> None:
    port, ended = free_port(), threading.Event()
    with ThreadPoolExecutor(max_workers=len(SDKS)) as threads, ExitStack() as open_:
        open_.callback(ended.set)  # before the threads are waited for
        all_busy = [Busy(sdk, client) for sdk, client in all_driven(open_, SDKS).items()]

        def all_go_on() -> None:
            """Until each has captured some batches more. So they do while a server starts."""
            goals = [(busy, busy.captured + 3 * BATCH) for busy in all_busy]
            seconds_until(lambda: all(busy.captured >= goal for busy, goal in goals), at_most_s=60)

        with LiveServer(tmp_path, port=port) as server:
            with server.client() as admin:
                Project(admin=admin, id=1, token=PROJECT_KEY).makes_flag("on")
            working = []
            for busy in all_busy:
                keys = {"secret": PERSONAL_KEY, "poll_s": POLL_S, "retries": 60}
                opens(busy.client, server.address, PROJECT_KEY, **keys)
                busy.client.reload()
                working.append(threads.submit(busy.work, ended))
            all_go_on()
            server.kill()
        with LiveServer(tmp_path, port=port):
            all_go_on()
        with LiveServer(tmp_path, port=port) as server, server.client() as admin:
            project = Project(admin=admin, id=1, token=PROJECT_KEY)
            all_go_on()
            ended.set()
            for worker in working:
                worker.result()
            for busy in all_busy:

                def is_there(busy: Busy = busy) -> bool:
                    busy.client.flush()
                    return set(project.numbers(busy.sdk.name)) == set(range(busy.captured))

                seconds_until(is_there, at_most_s=60)
                assert busy.is_on, busy.sdk
                # A kill may come between the server's commit and its answer: then what has no
                # uuid is new when it comes again.
                repeated = len(project.numbers(busy.sdk.name)) - busy.captured
                assert repeated <= (0 if busy.sdk.sends_uuids else BATCH), busy.sdk
