"""`hedgerow events export` writes every event once, even if it was stopped."""

import csv
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet  # type: ignore[import-untyped]
import pytest

from tests.support.live import (
    HEDGEROW,
    PERSONAL_KEY,
    PROJECT_KEY,
    LiveServer,
    build_environment,
    run_in_process,
    wait_for,
)

# More than a page, most of them at one moment.
EVENTS = 11_000
MOMENT = "2026-05-06T07:08:09.123456Z"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("exported")) as opened:
        for first in range(0, EVENTS, 1_000):
            _send(opened, *(_event(number) for number in range(first, first + 1_000)))
        yield opened


def _event(number: int) -> dict[str, Any]:
    return {
        "event": "odd" if number % 2 else "even",
        "distinct_id": f"=person-{number % 5}",
        "timestamp": MOMENT if number >= 10 else f"2026-05-0{number % 5 + 1}T00:00:00Z",
        "properties": {"n": number, "text": 'ü "quoted", \n 🌿'},
    }


def _send(server: LiveServer, *events: dict[str, Any]) -> None:
    with server.client() as client:
        body = {"api_key": PROJECT_KEY, "historical_migration": True, "batch": list(events)}
        assert client.post("/batch", json=body).status_code == 200


def _found(server: LiveServer) -> dict[str, Any]:
    return {"server_url": server.address, "personal_key": PERSONAL_KEY}


def _export(server: LiveServer, folder: Path, *options: str) -> str:
    done = run_in_process("events", "export", str(folder), *options, **_found(server))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def _numbers(folder: Path) -> list[int]:
    """Return the numbers of the events in all files, in order."""
    numbers = []
    for file in sorted(folder.glob("events-*")):
        if file.suffix == ".jsonl":
            texts = [json.loads(line)["properties"] for line in file.read_text().splitlines()]
        elif file.suffix == ".csv":
            with file.open(newline="") as opened:
                texts = [json.loads(row["properties"]) for row in csv.DictReader(opened)]
        else:
            column = parquet.read_table(file).column("properties").to_pylist()
            texts = [json.loads(text) for text in column]
        assert all(each["text"] == 'ü "quoted", \n 🌿' for each in texts)
        numbers += [each["n"] for each in texts]
    return numbers


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
def test_every_event_is_written_once_oldest_first(
    server: LiveServer, tmp_path: Path, format: str
) -> None:
    folder = tmp_path / "out"
    output = _export(server, folder, "--format", format, "--events-per-file", "3000")
    assert f"{EVENTS} event(s) in 4 file(s)" in output
    names = [f"events-0000{n}.{format}" for n in range(1, 5)]
    assert sorted(file.name for file in folder.iterdir()) == [*names, "export.json"]
    numbers = _numbers(folder)
    assert sorted(numbers) == list(range(EVENTS))
    assert {number % 5 for number in numbers[:2]} == {0}


def test_a_line_has_all_fields_of_an_event(server: LiveServer, tmp_path: Path) -> None:
    _export(server, tmp_path / "out", "--before", "2026-05-01T00:00:01")
    lines = (tmp_path / "out" / "events-00001.jsonl").read_text().splitlines()
    event = json.loads(lines[0])
    assert list(event) == [
        "uuid",
        "event",
        "distinct_id",
        "timestamp",
        "created_at",
        "properties",
        "elements_chain",
        "person_id",
    ]
    assert event["timestamp"] == "2026-05-01T00:00:00.000000Z"
    assert (event["event"], event["distinct_id"]) in (("even", "=person-0"), ("odd", "=person-0"))


def test_csv_values_are_no_formulas(server: LiveServer, tmp_path: Path) -> None:
    _export(server, tmp_path / "out", "-f", "csv", "--before", "2026-05-03")
    with (tmp_path / "out" / "events-00001.csv").open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert {row["distinct_id"][:2] for row in rows} == {"'="}


def test_events_are_filtered_by_time_and_name(server: LiveServer, tmp_path: Path) -> None:
    _export(server, tmp_path / "time", "--after", "2026-05-02", "--before", "2026-05-04")
    assert sorted(_numbers(tmp_path / "time")) == [1, 2, 6, 7]
    _export(server, tmp_path / "name", "--before", "2026-05-06", "--event", "odd")
    assert sorted(_numbers(tmp_path / "name")) == [1, 3, 5, 7, 9]
    output = _export(server, tmp_path / "none", "--event", "nothing")
    assert output.startswith("0 event(s) in 0 file(s)")


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_a_killed_export_continues(server: LiveServer, tmp_path: Path, format: str) -> None:
    folder = tmp_path / "out"
    command = ["events", "export", str(folder), "--events-per-file", "500", "-f", format]
    first = subprocess.Popen(
        [HEDGEROW, *command],
        env=build_environment(**_found(server)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: len(list(folder.glob(f"events-*.{format}"))) > 2, at_most_s=60)
    first.kill()
    first.wait()
    ledger = json.loads((folder / "export.json").read_text())
    (folder / f"events-99999.{format}.part").write_text("half an eve")
    before = {file.name: file.stat().st_mtime_ns for file in folder.glob("events-00001*")}
    _send(server, {**_event(3), "event": "late"})
    done = run_in_process(*command, **_found(server))
    assert done.returncode == 0, done.stderr
    assert sorted(_numbers(folder)) == list(range(EVENTS))
    assert {file.name: file.stat().st_mtime_ns for file in folder.glob("events-00001*")} == before
    assert not list(folder.glob("*.part"))
    again = run_in_process(*command, **_found(server))
    assert (again.returncode, again.stdout) == (0, done.stdout)
    finished = json.loads((folder / "export.json").read_text())
    assert finished["files"][: len(ledger["files"])] == ledger["files"]
    with server.client() as client:  # for the other tests
        client.post("/api/projects/1/events/delete/", json={"event": "late"})


def test_a_directory_holds_one_export(server: LiveServer, tmp_path: Path) -> None:
    _export(server, tmp_path / "out", "--event", "nothing")
    other = run_in_process("events", "export", str(tmp_path / "out"), **_found(server))
    assert (other.returncode, "an export with other options" in other.stderr) == (1, True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").touch()
    taken = run_in_process("events", "export", str(tmp_path / "mine"), **_found(server))
    assert (taken.returncode, "not empty" in taken.stderr) == (1, True)
    (tmp_path / "mine" / "export.json").write_text("{}")
    broken = run_in_process("events", "export", str(tmp_path / "mine"), **_found(server))
    assert (broken.returncode, "not an export manifest" in broken.stderr) == (1, True)


def test_without_a_service_the_events_are_opened_directly(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with LiveServer(data) as server:
        _send(server, *(_event(number) for number in range(20)))
        busy = run_in_process("events", "export", str(tmp_path / "busy"), data=data)
        assert (busy.returncode, "HEDGEROW_PERSONAL_KEY" in busy.stderr) == (1, True)
        wait_for(lambda: "20 event" in _export(server, _next(tmp_path)), at_most_s=120)
    done = run_in_process("events", "export", str(tmp_path / "out"), data=data)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(_numbers(tmp_path / "out")) == list(range(20))


def _next(folder: Path) -> Path:
    return folder / f"try-{len(list(folder.iterdir()))}"
