"""A service that cannot start prints one line that names the thing to change."""

import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.support.live import LiveServer, run_concurrently, run_hedgerow

INVALID = {
    "port": "eighty",
    "database_url": "mysql://root:hunter2@localhost/x",
    "database_timeout_s": "-1",
    "trusted_proxies": "my proxy",
    "bootstrap_personal_key": "phx_short",
}

Outcomes = Mapping[str, subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """How `serve` ends for each invalid setting."""
    data = tmp_path_factory.mktemp("invalid") / "data"
    calls = [
        partial(run_hedgerow, "serve", data=data, **{name: value})
        for name, value in INVALID.items()
    ]
    done = dict(zip(INVALID, run_concurrently(calls), strict=True))
    assert not data.exists()
    return done


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_setting_is_one_line_that_names_the_variable(
    outcomes: Outcomes, name: str
) -> None:
    done = outcomes[name]
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"hedgerow: HEDGEROW_{name.upper()} must be ")


def test_an_invalid_secret_is_not_repeated(outcomes: Outcomes) -> None:
    assert "hunter2" not in outcomes["database_url"].stderr
    assert "phx_short" not in outcomes["bootstrap_personal_key"].stderr


def test_a_misspelt_variable_is_a_warning_with_a_suggestion(tmp_path: Path) -> None:
    done = run_hedgerow("init", data=tmp_path / "data", trusted_proxy="10.0.0.1")
    assert done.returncode == 0
    assert "HEDGEROW_TRUSTED_PROXY is not a setting" in done.stderr
    assert "did you mean HEDGEROW_TRUSTED_PROXIES?" in done.stderr
    next_line = next(line for line in done.stdout.splitlines() if line.startswith("Next: "))
    assert next_line.endswith(f"serve --data {tmp_path / 'data'}")


def test_an_unusable_address_or_directory_is_one_line(live: LiveServer, tmp_path: Path) -> None:
    port = str(httpx.URL(live.address).port)
    place = tmp_path / "file"
    place.write_text("mine")
    taken, foreign, misplaced = run_concurrently(
        [
            partial(run_hedgerow, "serve", "--port", port, data=tmp_path),
            partial(run_hedgerow, "serve", "--host", "host.invalid", "--port", "0", data=tmp_path),
            partial(run_hedgerow, "serve", "--port", "0", data=place),
        ]
    )
    for done in (taken, foreign, misplaced):
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.count("\n") == 1
    assert f"Cannot listen on 127.0.0.1:{port}: Address already in use" in taken.stderr
    assert "Cannot listen on host.invalid:0" in foreign.stderr
    assert f"The data directory {place} is not writable" in misplaced.stderr
    assert place.read_text() == "mine"
    with live.client() as client:
        assert client.get("/api/users/@me/").status_code == 200
