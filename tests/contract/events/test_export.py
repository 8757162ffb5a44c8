"""CSV export of many events in bounded memory."""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path

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
