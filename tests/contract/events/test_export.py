"""CSV export of many events in bounded memory."""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.live import PROJECT_KEY, LiveServer
from tests.support.stored_events import wait_until_stored

MANY = 60_000
BATCH_SIZE = 10_000
# All rows as Python objects take almost twice as much.
MAX_GROWTH_MB = 60


def read_resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def events(start: int) -> list[dict[str, object]]:
    return [
        {
            "event": "e",
            "distinct_id": f"user-{number % 1000}",
            "timestamp": f"2026-01-{1 + number % 28:02}T00:00:00Z",
            "properties": {"number": number, f"p{number % 50}": "x" * 300},
        }
        for number in range(start, start + BATCH_SIZE)
    ]


def collect_lines(response: httpx.Response, lines: list[str]) -> None:
    """Keep the lines before an error, too."""
    lines.extend(response.iter_lines())


def test_failure_in_the_middle_is_visible(tmp_path: Path) -> None:
    """The value of the oldest event is too large, and on the second page."""
    with LiveServer(tmp_path) as server, server.client() as client:
        batch = [
            {
                "event": "e",
                "distinct_id": "ann",
                "timestamp": f"2026-02-01T00:00:00.{number:06}Z" if number else "2026-01-01",
                "properties": {"size": 2 if number else 40_000_000},
            }
            for number in range(6_000)
        ]
        for start in range(0, len(batch), 2_000):
            body = {"api_key": PROJECT_KEY, "batch": batch[start : start + 2_000]}
            assert client.post("/batch/", json=body).json() == {"status": 1}
        wait_until_stored(tmp_path, 300)
        parameters = {"select": """["repeat('x', toInt(properties.size))", "timestamp"]"""}
        lines: list[str] = []
        with client.stream("GET", "/api/projects/1/events.csv", params=parameters) as response:
            assert response.status_code == 200
            with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
                collect_lines(response, lines)
        assert len(lines) > 5_000
        assert lines[-2].startswith("xx,")
        assert lines[-1].startswith("ERROR: this file is incomplete. ")
        # Before the first page, the answer is an error.
        parameters = {"select": """["repeat('x', 40000000)", "timestamp"]"""}
        refused = client.get("/api/projects/1/events.csv", params=parameters)
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_query")
    assert "a response is incomplete" in server.errors
    assert "Traceback" not in server.errors


def test_all_events_are_exported_in_bounded_memory(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    with LiveServer(tmp_path) as server, server.client() as client:
        for start in range(0, MANY, BATCH_SIZE):
            body = {"api_key": PROJECT_KEY, "batch": events(start)}
            assert client.post("/batch/", json=body).json() == {"status": 1}
        wait_until_stored(tmp_path, 300)
        first = client.get("/api/projects/1/events.csv?limit=10").text
        assert len(first.splitlines()) == 11
        before = highest = read_resident_mb(server.process.pid)
        numbers, size = set[str](), 0

        with client.stream("GET", "/api/projects/1/events.csv") as response:
            assert response.status_code == 200

            def read_lines() -> Iterator[str]:
                nonlocal highest, size
                for line in response.iter_lines():
                    size += len(line)
                    if len(numbers) % 1000 == 0:
                        highest = max(highest, read_resident_mb(server.process.pid))
                    yield line

            for row in csv.DictReader(read_lines()):
                numbers.add(row["properties.number"])
        tell(f"CSV of {size / 1e6:.0f} MB: {before:.0f} MB before, {highest:.0f} MB at most")
        assert len(numbers) == MANY
        assert highest - before < MAX_GROWTH_MB
