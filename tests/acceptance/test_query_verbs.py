"""HogQL and new events at the terminal, from a running service."""

import csv
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from signal import SIGINT
from typing import Any

import pytest

from tests.live import (
    HEDGEROW,
    PERSONAL_KEY,
    PROJECT_KEY,
    LiveServer,
    environment,
    run_hedgerow,
    run_here,
    seconds_until,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("asked")) as opened:
        _send(opened, *(_event("seen", n=number, text="=1+1\n") for number in range(150)))
        yield opened


def _event(name: str, **properties: Any) -> dict[str, Any]:
    return {"event": name, "distinct_id": "ann", "properties": properties}


def _send(server: LiveServer, *events: dict[str, Any]) -> None:
    with server.client() as client:
        body = {"api_key": PROJECT_KEY, "batch": list(events)}
        assert client.post("/batch", json=body).status_code == 200


def _found(server: LiveServer) -> dict[str, Any]:
    return {"server_url": server.address, "personal_key": PERSONAL_KEY}


COUNT = "select event, count() as number from events where event = 'seen' group by event"


def test_an_answer_is_a_table_unless_told(server: LiveServer) -> None:
    done = run_hedgerow("query", COUNT, **_found(server))
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["event", "number"],
        ["seen", "150"],
    ]


def test_an_answer_as_json_and_as_csv(server: LiveServer) -> None:
    asked = "select properties.n as n, properties.text, null from events where n = 7"
    done = run_here("query", asked, "--format", "json", **_found(server))
    answer = json.loads(done.stdout)
    assert answer == {"columns": ["n", "text", "NULL"], "results": [["7", "=1+1\n", None]]}
    done = run_hedgerow("query", asked, "-f", "csv", **_found(server))
    assert list(csv.reader(done.stdout.splitlines(keepends=True))) == [
        ["n", "text", "NULL"],
        ["7", "'=1+1\n", ""],
    ]


def test_a_query_may_come_from_another_program(server: LiveServer) -> None:
    done = subprocess.run(
        [HEDGEROW, "query", "-", "--server", server.address, "--key", PERSONAL_KEY],
        input=COUNT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.split()[-1]) == (0, "150")


def test_more_rows_than_shown_are_told(server: LiveServer) -> None:
    done = run_here("query", "select 1 from events", **_found(server))
    assert "first 100 rows" in done.stderr
    done = run_here("query", "select 1 from events limit 5", **_found(server))
    assert done.stderr == ""
    done = run_here("query", "select arrayJoin(range(60000)) limit 60000", **_found(server))
    assert "no query gives more" in done.stderr


def test_what_is_wrong_is_one_line(server: LiveServer, tmp_path: Path) -> None:
    done = run_here("query", "select evnt from events", **_found(server))
    assert done.returncode == 1
    assert done.stderr.startswith("hedgerow: ")
    assert "line 1, column 8" in done.stderr
    done = run_here("query", "select 1", server_url=server.address)
    assert (done.returncode, "HEDGEROW_PERSONAL_KEY" in done.stderr) == (1, True)
    wrong: dict[str, Any] = {
        "server_url": server.address,
        "personal_key": "phx_wrong-wrong-wrong-wrong",
    }
    done = run_here("query", "select 1", **wrong)
    assert (done.returncode, "is invalid" in done.stderr) == (1, True)
    assert "phx_wrong" not in done.stderr
    away: dict[str, Any] = {"server_url": "http://127.0.0.1:1", "personal_key": PERSONAL_KEY}
    done = run_here("query", "select 1", **away)
    assert (done.returncode, "Is the service running?" in done.stderr) == (1, True)
    done = run_here("query", "select 1", "--project", "77", **_found(server))
    assert (done.returncode, "Project not found" in done.stderr) == (1, True)


def _tail(server: LiveServer, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [HEDGEROW, "events", "tail", *options],
        env=environment(**_found(server)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    process.send_signal(SIGINT)
    rest, errors = process.communicate(timeout=30)
    return process.returncode, rest, errors


def test_new_events_are_shown_as_they_arrive_each_once_until_told_to_stop(
    server: LiveServer,
) -> None:
    _send(server, *(_event("before", n=number) for number in range(3)))
    tail = _tail(server, "--last", "2")
    assert tail.stdout is not None
    lines = [tail.stdout.readline() for _ in range(2)]
    assert [line.split()[2:] for line in lines] == [["before", "ann", f"n={n}"] for n in (1, 2)]
    for number in range(3):
        _send(server, _event("after", n=number, **{"$hidden": 1}, text="a\nb"))
        assert tail.stdout.readline().split()[2:] == [
            "after",
            "ann",
            f"n={number}",
            'text="a\\nb"',
        ]
    assert _ended(tail) == (0, "", "")


def test_only_some_events_as_json(server: LiveServer) -> None:
    tail = _tail(server, "--event", "wanted", "--json", "-n", "0")
    try:
        seconds_until(
            lambda: sum("/query/" in line["route"] for line in server.request_lines) > 0,
            at_most_s=30,
        )
        wanted = [_event("wanted", n=1), _event("unwanted"), _event("wanted", n=2)]
        asked = len(server.request_lines)
        # It has asked for the time, and then for what is new: from then on nothing is missed.
        seconds_until(lambda: len(server.request_lines) > asked + 1, at_most_s=30)
        _send(server, *wanted)
        assert tail.stdout is not None
        shown = [json.loads(tail.stdout.readline()) for _ in range(2)]
    finally:
        ended = _ended(tail)
    assert [(each["event"], each["properties"]["n"]) for each in shown] == [
        ("wanted", 1),
        ("wanted", 2),
    ]
    assert ended == (0, "", "")


def test_who_reads_may_leave(server: LiveServer) -> None:
    tail = _tail(server, "--last", "1")
    assert tail.stdout is not None
    assert tail.stderr is not None
    tail.stdout.readline()
    tail.stdout.close()
    _send(server, _event("unseen"))
    assert tail.wait(30) == 0
    assert tail.stderr.read() == ""
    tail.stderr.close()


def test_a_service_that_is_away_for_a_while_is_waited_for(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as first:
        _send(first, _event("early"))
        port = first.address.rpartition(":")[2]
        tail = _tail(first, "--last", "1")
        assert tail.stdout is not None
        assert "early" in tail.stdout.readline()
    assert tail.stderr is not None
    assert "Trying again" in tail.stderr.readline()
    with LiveServer(tmp_path, port=port) as second:
        _send(second, _event("late"))
        assert "late" in tail.stdout.readline()
    tail.kill()
    tail.communicate()


def test_experiments_are_listed_and_their_results_shown(server: LiveServer) -> None:
    taps = {"kind": "ExperimentMetric", "metric_type": "mean", "source": {"event": "tapped"}}
    began = {"start_date": "2020-01-01T00:00:00Z", "metrics": [taps]}
    with server.client() as client:
        for key, fields in (("button", began), ("later", {})):
            body = {"name": f"The {key}", "feature_flag_key": key, **fields}
            made = client.post("/api/projects/1/experiments/", json=body)
            assert made.status_code == 201
    called = {"$feature_flag": "button", "$feature_flag_response": "test"}
    exposed = {**_event("$feature_flag_called", **called), "timestamp": "2020-01-02T00:00:00Z"}
    _send(server, exposed, _event("tapped"), _event("tapped"))
    running = ("experiments", "list", "--status", "running")
    done = run_here(*running, **_found(server))
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["id", "name", "status", "flag", "start", "end"],
        ["1", "The", "button", "running", "button", "2020-01-01", "-"],
    ]
    (told,) = json.loads(run_here(*running, "--json", **_found(server)).stdout)
    assert told["feature_flag_key"] == "button"
    results = ("experiments", "results", "1")
    shown = run_here(*results, "--refresh", **_found(server)).stdout.splitlines()
    assert shown[0] == "button: running, bayesian 0.95"
    assert [line.split() for line in shown[1:4]] == [
        ["variant", "people"],
        ["control", "0"],
        ["test", "1"],
    ]
    assert shown[5] == "tapped (mean)"
    assert shown[8].split() == ["test", "1", "2", "2", "-", "-", "-", "-"]
    assert "control: no-exposures" in shown
    whole = json.loads(run_here(*results, "--json", **_found(server)).stdout)
    assert whole["exposures"]["total_exposures"] == {"control": 0, "test": 1}
    gone = run_here("experiments", "results", "99", **_found(server))
    assert (gone.returncode, gone.stdout) == (1, "")
    keyless = run_here(*running, server_url=server.address)
    assert "--scope experiment:read" in keyless.stderr
