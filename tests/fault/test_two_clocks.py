"""Two processes on one PostgreSQL, one of them on a machine whose clock is an hour off and is set
while it runs: what one of them stores, the other one does in time."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from unittest.mock import patch

import httpx

from hedgerow.lib.encryption import generate_encryption_key
from tests.fault.test_changes_clock import (
    API,
    await_pass,
    count_executions,
    is_pending,
    make_flag,
    schedule,
)
from tests.fault.test_clock import HOUR_S, add_destination
from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.clock_shift import ShiftedClock
from tests.support.live import PROJECT_KEY, LiveServer, run_concurrently, wait_for
from tests.support.postgres import PostgresTestServer
from tests.support.receiver import PlannedResponse, ReceivedRequest, Receiver

AT_MOST_S = 120
# Longer than a process takes to take over from another one.
RETRY_AFTER_S = 15


@dataclass(frozen=True, slots=True)
class TwoFailures:
    """A destination that fails twice, and asks for a longer wait the second time."""

    times: list[float] = field(default_factory=list)

    def __call__(self, _: ReceivedRequest) -> PlannedResponse:
        self.times.append(time.monotonic())
        if len(self.times) > 2:
            return PlannedResponse()
        headers = {"Retry-After": str(RETRY_AFTER_S)} if len(self.times) == 2 else {}
        return PlannedResponse(status=503, headers=headers)

    def check_wait(self) -> None:
        """The destination was called again, and not before the time for which it asked."""
        wait_for(lambda: len(self.times) == 3, at_most_s=AT_MOST_S)
        assert self.times[2] - self.times[1] >= RETRY_AFTER_S - 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Two processes; the clock of the second one is `clock`."""

    right: LiveServer
    wrong: LiveServer
    clock: ShiftedClock
    shift_s: int


@contextmanager
def freeze(server: LiveServer) -> Iterator[None]:
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


@contextmanager
def run_installation(
    folder: Path, shift_s: int, postgres: PostgresTestServer, clickhouse: ClickHouseTestServer
) -> Iterator[Installation]:
    folder.mkdir()
    clock = ShiftedClock(folder)
    clock.set(shift_s)
    start = partial(
        LiveServer,
        database_url=postgres.create_migrated_database(),
        clickhouse_url=clickhouse.create_database(),
        encryption_keys=generate_encryption_key(),
        allow_private_destinations="true",
    )
    with start(folder / "right") as right:
        with patch.dict(os.environ, clock.environment):
            wrong = start(folder / "wrong")
        with wrong:
            yield Installation(right=right, wrong=wrong, clock=clock, shift_s=shift_s)


def capture(client: httpx.Client) -> None:
    event = {"event": "seen", "distinct_id": "ann"}
    answer = client.post("/batch/", json={"api_key": PROJECT_KEY, "batch": [event]})
    assert answer.status_code == 200


def count_attempts(client: httpx.Client, path: str) -> int:
    found = client.get(f"{path}deliveries/").json()["results"]
    return sum(each["attempts"] for each in found)


def test_retries_and_schedules_are_in_time(
    tmp_path: Path, postgres: PostgresTestServer, clickhouse: ClickHouseTestServer
) -> None:
    """With a clock that is behind, and with one that is ahead, at the same time: both mostly
    wait."""
    shifts = {"behind": -HOUR_S, "ahead": HOUR_S}
    with ExitStack() as stack:
        installations = [
            stack.enter_context(run_installation(tmp_path / name, shift_s, postgres, clickhouse))
            for name, shift_s in shifts.items()
        ]
        run_concurrently([partial(check_retries_and_schedules, each) for each in installations])


def check_retries_and_schedules(installation: Installation) -> None:
    right, wrong = installation.right, installation.wrong
    with Receiver() as receiver, right.client() as there, wrong.client() as here:
        path = add_destination(there, receiver.url)
        receiver.decide = failures = TwoFailures()
        with freeze(right):
            capture(here)
            wait_for(lambda: count_attempts(here, path) == 2, at_most_s=AT_MOST_S)
            installation.clock.set(installation.shift_s - HOUR_S)
            check_schedules(here)
            failures.check_wait()
        wait_for(lambda: there.get(f"{path}metrics/").json()["delivered"] == 1, AT_MOST_S)
        receiver.decide = failures = TwoFailures()
        with freeze(right):
            capture(here)
            wait_for(lambda: count_attempts(here, path) == 2, at_most_s=AT_MOST_S)
            wrong.process.kill()
        failures.check_wait()
        event = there.get(f"{API}/events/").json()["results"][0]
        sent = datetime.fromisoformat(event["timestamp"])
        assert abs(datetime.now(UTC) - sent) < timedelta(seconds=HOUR_S / 2)


def check_schedules(client: httpx.Client) -> None:
    """A change is made when it is due, and not an hour before."""
    later = make_flag(client, "later")
    schedule(client, later, HOUR_S / 2)
    await_pass(client, "soon", 0)
    assert is_pending(client, later)
    assert count_executions(client, later) == 0
