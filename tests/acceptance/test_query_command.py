"""`hedgerow query`, `events tail` and `experiments` on a running service."""

import csv
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from signal import SIGINT
from typing import Any

import pytest

from tests.support.live import (
    HEDGEROW,
    PERSONAL_KEY,
    PROJECT_KEY,
    LiveServer,
    build_environment,
    run_hedgerow,
    run_in_process,
    wait_for,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("server")) as opened:
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


def test_a_result_is_a_table_by_default(server: LiveServer) -> None:
    done = run_in_process("query", COUNT, **_found(server))
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["event", "number"],
        ["seen", "150"],
    ]


def test_a_result_as_json_and_as_csv(server: LiveServer) -> None:
    query = "select properties.n as n, properties.text, null from events where n = 7"
    done = run_in_process("query", query, "--format", "json", **_found(server))
    answer = json.loads(done.stdout)
    assert answer == {"columns": ["n", "text", "NULL"], "results": [["7", "=1+1\n", None]]}
    # It writes bytes.
    done = run_hedgerow("query", query, "-f", "csv", **_found(server))
    assert list(csv.reader(done.stdout.splitlines(keepends=True))) == [
        ["n", "text", "NULL"],
        ["7", "'=1+1\n", ""],
    ]


def test_a_query_is_read_from_standard_input(server: LiveServer) -> None:
    done = subprocess.run(
        [HEDGEROW, "query", "-", "--server", server.address, "--key", PERSONAL_KEY],
        input=COUNT,
        env=build_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.split()[-1]) == (0, "150")


def test_a_cut_result_is_announced(server: LiveServer) -> None:
    done = run_in_process("query", "select 1 from events", **_found(server))
    assert "first 100 rows" in done.stderr
    done = run_in_process("query", "select 1 from events limit 5", **_found(server))
    assert done.stderr == ""
    done = run_in_process("query", "select arrayJoin(range(60000)) limit 60000", **_found(server))
    assert "the most of any query" in done.stderr


def test_an_error_is_one_line(server: LiveServer, tmp_path: Path) -> None:
    done = run_in_process("query", "select evnt from events", **_found(server))
    assert done.returncode == 1
    assert done.stderr.startswith("hedgerow: ")
    assert "line 1, column 8" in done.stderr
    done = run_in_process("query", "select 1", server_url=server.address)
    assert (done.returncode, "HEDGEROW_PERSONAL_KEY" in done.stderr) == (1, True)
    wrong: dict[str, Any] = {
        "server_url": server.address,
        "personal_key": "phx_wrong-wrong-wrong-wrong",
    }
    done = run_in_process("query", "select 1", **wrong)
    assert (done.returncode, "is invalid" in done.stderr) == (3, True)
    assert "phx_wrong" not in done.stderr
    away: dict[str, Any] = {"server_url": "http://127.0.0.1:1", "personal_key": PERSONAL_KEY}
    done = run_in_process("query", "select 1", **away)
    assert (done.returncode, "Is the service running?" in done.stderr) == (5, True)
    done = run_in_process("query", "select 1", "--project", "77", **_found(server))
    assert (done.returncode, "Project not found" in done.stderr) == (4, True)


def _tail(server: LiveServer, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [HEDGEROW, "events", "tail", *options],
        env=build_environment(**_found(server)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    process.send_signal(SIGINT)
    rest, errors = process.communicate(timeout=30)
    return process.returncode, rest, errors


def test_tail_shows_each_new_event_once_until_it_is_stopped(
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


def test_tail_filters_events_and_prints_json(server: LiveServer) -> None:
    tail = _tail(server, "--event", "wanted", "--json", "-n", "0")
    try:
        wait_for(
            lambda: sum("/query/" in line["route"] for line in server.request_lines) > 0,
            at_most_s=120,
        )
        wanted = [_event("wanted", n=1), _event("unwanted"), _event("wanted", n=2)]
        before = len(server.request_lines)
        # It has requested the time and then new events: from then on it misses nothing.
        wait_for(lambda: len(server.request_lines) > before + 1, at_most_s=120)
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


def test_tail_ends_when_its_reader_closes_the_pipe(server: LiveServer) -> None:
    tail = _tail(server, "--last", "1")
    assert tail.stdout is not None
    assert tail.stderr is not None
    tail.stdout.readline()
    tail.stdout.close()
    _send(server, _event("unseen"))
    assert tail.wait(30) == 0
    assert tail.stderr.read() == ""
    tail.stderr.close()


def test_tail_waits_for_a_service_that_restarts(tmp_path: Path) -> None:
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
    done = run_in_process(*running, **_found(server))
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["id", "name", "status", "flag", "start", "end"],
        ["1", "The", "button", "running", "button", "2020-01-01", "-"],
    ]
    (experiment,) = json.loads(run_in_process(*running, "--json", **_found(server)).stdout)
    assert experiment["feature_flag_key"] == "button"
    results = ("experiments", "results", "1")
    shown = run_in_process(*results, "--refresh", **_found(server)).stdout.splitlines()
    assert shown[0] == "button: running, bayesian 0.95"
    assert [line.split() for line in shown[1:4]] == [
        ["variant", "people"],
        ["control", "0"],
        ["test", "1"],
    ]
    assert shown[5] == "tapped (mean)"
    assert shown[8].split() == ["test", "1", "2", "2", "-", "-", "-", "-"]
    assert "control: no-exposures" in shown
    whole = json.loads(run_in_process(*results, "--json", **_found(server)).stdout)
    assert whole["exposures"]["total_exposures"] == {"control": 0, "test": 1}
    gone = run_in_process("experiments", "results", "99", **_found(server))
    assert (gone.returncode, gone.stdout) == (4, "")
    keyless = run_in_process(*running, server_url=server.address)
    assert "--scope experiment:read" in keyless.stderr


def test_a_result_can_be_drawn(server: LiveServer) -> None:
    drawn = run_in_process("query", COUNT, "--chart", "bar", **_found(server))
    label, bar, number = drawn.stdout.split()
    assert (label, set(bar), number) == ("seen", {"█"}, "150")
    text = "select 'x', event from events where event = 'seen' limit 1"
    refused = run_in_process("query", text, "--chart", "line", **_found(server))
    assert refused.returncode == 1
    assert "not a number to draw" in refused.stderr


def test_insights_from_a_file(server: LiveServer, tmp_path: Path) -> None:
    file = tmp_path / "seen.yaml"
    file.write_text(
        "kind: TrendsQuery\ndateRange: {date_from: -1d}\n"
        "series: [{kind: EventsNode, event: seen}, {kind: EventsNode, event: never}]\n"
    )
    table = run_in_process("insights", "run", str(file), **_found(server))
    assert table.stdout.splitlines()[0].split() == ["day", "seen", "never"]
    assert table.stdout.splitlines()[-1].split()[1:] == ["150", "0"]
    drawn = run_in_process("insights", "run", str(file), "--chart", "line", **_found(server))
    assert "■ seen  ■ never" in drawn.stdout
    shown = json.loads(
        run_in_process("insights", "run", str(file), "--json", **_found(server)).stdout
    )
    assert shown[0]["count"] == 150
    file.write_text("kind: TrendsQuery\nseries: [{event: seen, mth: dau}]\n")
    refused = run_in_process("insights", "run", str(file), **_found(server))
    assert "Unknown field `mth`" in refused.stderr
    file.write_text("[]")
    assert "holds no query" in run_in_process("insights", "run", str(file), **_found(server)).stderr
