"""A process that tests fork is as good as one they start."""

import re
import signal
from pathlib import Path

import pytest

from tests.support.forks.server import ForkedProcess
from tests.support.live import PROJECT_KEY, LiveServer


def ids(server: LiveServer) -> tuple[str, str]:
    """Of a request and of an answer, without what counts in them."""
    with server.client(key=None) as client:
        asked = {"api_key": PROJECT_KEY, "distinct_id": "ann"}
        answer = client.post("/flags/?v=2", json=asked)
    return answer.headers["x-request-id"].partition("-")[0], answer.json()["requestId"][:24]


def test_a_fork_has_settings_a_folder_streams_and_ids_of_its_own(tmp_path: Path) -> None:
    first = LiveServer(Path("first"), cwd=str(tmp_path), log_format="json")
    second = LiveServer(Path("second"), cwd=str(tmp_path), log_level="error")
    with first, second:
        assert isinstance(first.process, ForkedProcess)
        assert isinstance(second.process, ForkedProcess)
        assert first.process.pid != second.process.pid
        assert not set(ids(first)) & set(ids(second))
    assert {path.name for path in tmp_path.iterdir()} == {"first", "second"}
    assert [line["route"] for line in first.request_lines] == ["/flags"]
    assert second.errors == ""


def test_how_a_fork_ended_is_told(tmp_path: Path) -> None:
    refused = LiveServer(tmp_path, log_level="whispering")
    assert refused.process.wait(60) == 1
    assert refused.stop() == 1
    assert refused.errors.startswith("hedgerow: HEDGEROW_LOG_LEVEL")
    killed = LiveServer(tmp_path).wait_ready()
    assert killed.stop(signal.SIGKILL) == -signal.SIGKILL
    assert LiveServer(tmp_path).wait_ready().stop(signal.SIGTERM) == 0


def test_what_may_change_how_it_is_loaded_starts_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    with LiveServer(tmp_path / "data") as server:
        assert not isinstance(server.process, ForkedProcess)
        assert re.fullmatch(r"[0-9a-f]{12}", ids(server)[0])
