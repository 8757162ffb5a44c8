"""`hedgerow users` beside a running service, which sees each change within a second."""

from collections.abc import Iterator

import httpx
import pytest

from tests.support.live import Installation, LiveServer, wait_for

OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}
TIMEOUT_S = 120.0
PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("users") / "data") as started:
        yield started


@pytest.fixture
def installation(server: LiveServer) -> Installation:
    return Installation(data=server.data, settings={})


def post(server: LiveServer, path: str, **body: str) -> httpx.Response:
    return httpx.post(server.address + path, json=body, headers=OWN_PAGE, timeout=60, verify=False)


def test_first_start_prints_one_setup_link_and_a_new_one_replaces_it(
    server: LiveServer, installation: Installation
) -> None:
    [printed] = [word for word in server.output.split() if "#setup=hgl_" in word]
    names = {"email": "olga@example.com", "first_name": "Olga", "password": PASSWORD}
    link = installation.run_json("users", "setup-link")["link"]
    assert post(server, "/api/setup/", token=printed, **names).status_code == 400
    assert post(server, "/api/setup/", token=link, **names).status_code == 200
    refused = installation.run_in_process("users", "setup-link")
    assert refused.returncode == 1
    assert "hedgerow users reset-password olga@example.com" in refused.stderr
    assert "hgl_" not in server.errors


def test_person_is_added_changed_and_removed(
    server: LiveServer, installation: Installation
) -> None:
    add = ("users", "add", "Bob@Example.com", "--name", "Bob", "--role", "1=viewer")
    link = installation.run_json(*add)["link"]
    done = post(server, "/api/reset/confirm/", token=link, password=PASSWORD)
    assert done.status_code == 200
    login = {"email": "bob@example.com", "password": PASSWORD}
    cookies = post(server, "/api/login/", **login).cookies
    flags = f"{server.address}/api/projects/1/feature_flags/"
    assert httpx.get(flags, cookies=cookies, verify=False).status_code == 200
    installation.run_json("users", "role", "bob@example.com", "--no-role", "1")
    wait_for(lambda: httpx.get(flags, cookies=cookies, verify=False).status_code == 403, TIMEOUT_S)
    [session] = installation.run_json("users", "sessions", "bob@example.com")
    assert session["user_agent"].startswith("python-httpx")
    installation.run_json("users", "sessions", "bob@example.com", "--end")
    me = f"{server.address}/api/users/@me/"
    wait_for(lambda: httpx.get(me, cookies=cookies, verify=False).status_code == 401, TIMEOUT_S)
    listed = installation.run_json("users", "list")
    assert [each["email"] for each in listed][1:] == ["bob@example.com"]
    removed = installation.run_json("users", "remove", "bob@example.com", "--yes")
    assert removed == {"email": "bob@example.com", "removed": True, "revoked_keys": 0}
    wait_for(lambda: post(server, "/api/login/", **login).status_code == 400, TIMEOUT_S)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("remove", "{owner}", "--yes"), "needs an owner"),
        (("role", "{owner}", "--member"), "needs an owner"),
        (("invite", "x@example.com", "--role", "1=king"), "There is no role king"),
        (("invite", "x@example.com", "--role", "viewer"), "Expected PROJECT=ROLE"),
        (("add", "x", "--name", "X"), "valid email"),
        (("roles", "remove", "viewer"), "cannot be changed"),
    ],
)
def test_mistakes_are_explained(
    installation: Installation, arguments: tuple[str, ...], error: str
) -> None:
    owner = installation.run_json("users", "list")[0]["email"]
    done = installation.run_in_process("users", *(each.format(owner=owner) for each in arguments))
    assert done.returncode == 1
    assert error in done.stderr


def test_a_missing_person_has_its_status(installation: Installation) -> None:
    done = installation.run_in_process("users", "role", "x@example.com", "--owner")
    assert (done.returncode, "No person has the email" in done.stderr) == (4, True)
