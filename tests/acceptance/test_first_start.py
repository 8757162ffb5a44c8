"""The first screen keeps its promises: what it prints works as printed, and secrets appear once."""

import re
import shlex
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.live import PERSONAL_KEY, PROJECT_KEY, RANDOM_KEYS, LiveServer, build_environment


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("first")
    with LiveServer(folder / "new" / "data", cwd=str(folder), **RANDOM_KEYS) as server:
        yield server


@pytest.fixture(scope="module")
def second(first: LiveServer) -> Iterator[LiveServer]:
    """The same installation started again; tests of `first` come before."""
    first.stop()
    with LiveServer(first.data, cwd=_cwd(first), **RANDOM_KEYS) as server:
        yield server


def test_first_start_prints_a_project_key_and_a_personal_key(first: LiveServer) -> None:
    assert re.search(r"Project key +phc_[A-Za-z0-9]{27,} ", first.output)
    assert re.search(r"Personal key +phx_[A-Za-z0-9]{27,} ", first.output)


def test_every_printed_curl_line_works_as_printed(first: LiveServer) -> None:
    lines = [line.strip() for line in first.output.splitlines() if "curl " in line]
    listing, deciding, capturing = (_fill_in_keys(line, first) for line in lines)
    assert '"results":[]' in _sent(listing)
    assert _sent(deciding).startswith('{"featureFlags":{},"featureFlagPayloads":{},')
    assert _sent(capturing) == '{"status":1}'


def test_each_generated_key_is_printed_once(first: LiveServer) -> None:
    printed = first.output + first.errors
    assert printed.count(_printed_key(first)) == 1
    assert printed.count(_printed_key(first, "phc_")) == 1


def test_the_printed_address_of_the_docs_answers(first: LiveServer) -> None:
    found = re.search(r"API docs: +(\S+)", first.output)
    assert found is not None
    answer = httpx.get(found[1], timeout=60, verify=False)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")


def test_first_start_makes_project_1_with_the_printed_key(first: LiveServer) -> None:
    with first.client(_printed_key(first)) as client:
        page = client.get("/api/projects/").json()
    assert [(item["id"], item["name"]) for item in page["results"]] == [(1, "Default project")]
    assert page["results"][0]["api_token"] in first.output


def test_the_printed_personal_key_may_do_everything(first: LiveServer) -> None:
    with first.client(_printed_key(first)) as client:
        assert client.get("/api/personal_api_keys/@current/").json()["scopes"] == ["*"]


def test_first_start_makes_a_data_folder_for_its_owner_alone(first: LiveServer) -> None:
    assert stat.S_IMODE(first.data.stat().st_mode) == 0o700
    assert str(first.data) in first.output


def test_the_personal_key_is_in_no_file(first: LiveServer) -> None:
    key = _printed_key(first).encode()
    files = [path for path in first.data.rglob("*") if path.is_file()]
    assert files
    assert [path.name for path in files if key in path.read_bytes()] == []


def test_second_start_says_how_to_make_a_key_that_then_works(second: LiveServer) -> None:
    found = re.search(r"New keys: +(.+)", second.output)
    assert found is not None
    done = subprocess.run(
        found[1],
        shell=True,
        cwd=_cwd(second),
        env=build_environment(**RANDOM_KEYS),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with second.client(done.stdout.split()[0]) as client:
        assert client.get("/api/users/@me/").status_code == 200


def test_second_start_prints_no_secret(first: LiveServer, second: LiveServer) -> None:
    with second.client(_printed_key(first)) as client:
        assert client.get("/api/users/@me/").status_code == 200
    second.stop()
    assert "is ready at" in second.output
    assert "phx_" not in second.output + second.errors
    assert "curl" not in second.output


def test_bootstrap_keys_are_the_first_keys_and_only_on_the_first_start(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "data") as server, server.client() as client:
        assert client.get("/api/projects/1/").json()["api_token"] == PROJECT_KEY
        assert server.get_status("/api/users/@me/") == 401
        with server.client(PERSONAL_KEY) as known:
            assert known.get("/api/users/@me/").status_code == 200
        printed = server.output + server.errors
        assert PERSONAL_KEY not in printed
        assert PROJECT_KEY not in printed
        assert "as in HEDGEROW_BOOTSTRAP_PERSONAL_KEY" in printed
    other = {"bootstrap_personal_key": "phx_another-key-for-the-second-start"}
    with LiveServer(tmp_path / "data", **other) as server:
        with server.client() as client:
            assert client.get("/api/users/@me/").status_code == 200
        with server.client(other["bootstrap_personal_key"]) as client:
            assert client.get("/api/users/@me/").status_code == 401
    assert "phx_" not in server.output + server.errors


def _cwd(server: LiveServer) -> str:
    return str(server.data.parent.parent)


def _printed_key(server: LiveServer, prefix: str = "phx_") -> str:
    found = re.search(rf"{prefix}\w+", server.output)
    assert found is not None
    return found[0]


def _fill_in_keys(line: str, server: LiveServer) -> str:
    line = line.replace("$KEY", _printed_key(server))
    return line.replace("$PROJECT_KEY", _printed_key(server, "phc_"))


def _sent(line: str) -> str:
    """What a printed curl line answers; on a machine without curl it is read and sent by hand."""
    if shutil.which("curl"):
        return subprocess.run(
            line, shell=True, capture_output=True, text=True, timeout=60, check=True
        ).stdout
    program, option, header, address, *data = shlex.split(line)
    assert (program, option, data[:1]) in (("curl", "-H", []), ("curl", "-H", ["-d"]))
    name, _, value = header.partition(": ")
    method = "POST" if data else "GET"
    content = "".join(data[1:])
    return httpx.request(
        method, address, headers={name: value}, content=content, timeout=60, verify=False
    ).text
