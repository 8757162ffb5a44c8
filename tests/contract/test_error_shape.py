"""Invalid requests to every endpoint: the right error, always in the common shape."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.contract.api.cases import check_all
from tests.contract.api.operations import (
    ANY_KEY,
    NO_IDS,
    ONE_FAMILY_OPERATIONS,
    ONE_ROOT_OPERATIONS,
    OPERATIONS,
    Operation,
    PathIds,
    create_objects,
    list_allowed_methods,
)
from tests.contract.api.shape import find_format_errors
from tests.support.live import LiveServer, run_concurrently

NO_KEY_ACCESS = "This action does not support Personal API Key access"
PROJECTS_ONLY = "API keys with scoped projects are only supported on project-based endpoints."

# The service looks for unknown keys and projects in the database at most 20 times a second, for all
# requests that wait for that.
AT_ONCE = 16

each_operation = check_all("operation", ONE_ROOT_OPERATIONS)
each_operation_at_once = check_all("operation", ONE_ROOT_OPERATIONS, AT_ONCE)
each_path = check_all("path", sorted({operation.path for operation in ONE_ROOT_OPERATIONS}))
in_projects_at_once = check_all(
    "operation", [operation for operation in ONE_ROOT_OPERATIONS if operation.in_project], AT_ONCE
)
# The fixtures have no such object: it is not found before its body is read.
UNKNOWN_OBJECTS = (
    "{alert_id}",
    "{subscription_id}",
    "{property_definition_id}",
    "{change_request_id}",
)
with_body = check_all(
    "operation",
    [
        operation
        for operation in ONE_FAMILY_OPERATIONS
        if operation.body and not any(each in operation.path for each in UNKNOWN_OBJECTS)
    ],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Two projects, and keys with limited scopes or projects, on a server with an admin key."""

    admin: httpx.Client
    client: httpx.Client
    mine: PathIds
    theirs: PathIds
    their_token: str
    their_trail: list[dict[str, Any]]
    scopeless: str
    limited: str

    def ask(self, method: str, url: str, key: str | None = None, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return self.client.request(method, url, headers=headers | more.pop("headers", {}), **more)


@pytest.fixture(scope="module")
def world(live: LiveServer) -> Iterator[World]:
    with live.client() as admin, live.client(key=None) as client:
        projects = [admin.post("/api/projects/", json={"name": "Secret"}).json() for _ in range(2)]
        ids = [project["id"] for project in projects]

        def key(label: str, *scopes: str, teams: tuple[int, ...] = ()) -> dict[str, Any]:
            body = {"label": label, "scopes": scopes, "scoped_teams": teams}
            created: dict[str, Any] = admin.post("/api/personal_api_keys/", json=body).json()
            return created

        their_key_id = key("Theirs", "*", teams=(ids[1],))["id"]
        mine, theirs = (create_objects(admin, project, their_key_id) for project in ids)
        yield World(
            admin=admin,
            client=client,
            mine=mine,
            theirs=theirs,
            their_token=projects[1]["api_token"],
            their_trail=list_activity(admin, theirs),
            scopeless=key("Scopeless", "webhook:read")["value"],
            limited=key("Limited", "*", teams=(ids[0],))["value"],
        )


def list_activity(admin: httpx.Client, ids: PathIds) -> list[dict[str, Any]]:
    """Return the activity of users in a project, without that of jobs."""
    path = f"/api/projects/{ids.project_id}/activity_log/"
    entries: list[dict[str, Any]] = admin.get(path, params={"limit": 1000}).json()["results"]
    return [entry for entry in entries if not entry["user"].get("is_system")]


def read_refusal(response: httpx.Response) -> dict[str, Any]:
    """Return the error of a response. Fails if it lacks the common shape."""
    wrong = list(
        find_format_errors(
            response.status_code, response.headers.get("content-type"), response.content
        )
    )
    assert not wrong, f"{response.request.method} {response.request.url}: {wrong}"
    error: dict[str, Any] = response.json()
    return error


@each_operation
def test_missing_key_is_401(operation: Operation, world: World) -> None:
    response = world.ask(operation.method, operation.url(world.mine))
    assert read_refusal(response)["code"] == "not_authenticated"
    assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")


@each_operation_at_once
def test_unknown_key_is_401(operation: Operation, world: World) -> None:
    response = world.ask(operation.method, operation.url(world.mine), "phx_no-such-key")
    assert read_refusal(response)["code"] == "authentication_failed"
    assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")


@each_operation
def test_missing_scope_is_403(operation: Operation, world: World) -> None:
    url = operation.url(world.mine)
    response = world.ask(operation.method, url, world.scopeless)
    assert response.status_code == 403
    scope = operation.scope
    if "{document_kind}" in operation.path:  # the scope of what the document contains
        scope = f"event_definition:{'read' if operation.method == 'GET' else 'write'}"
    lacks = f"API key missing required scope '{scope}'"
    is_for_all_access = scope in ("*", ANY_KEY)
    assert read_refusal(response)["detail"] == (NO_KEY_ACCESS if is_for_all_access else lacks)


@each_operation
def test_key_of_another_project_reads_and_changes_nothing(
    operation: Operation, world: World
) -> None:
    url = operation.url(world.theirs)
    response = world.ask(operation.method, url, world.limited)
    assert world.their_token not in response.text
    assert str(world.theirs.key_id) not in response.text
    if operation.in_project:
        assert response.status_code == 403
        assert read_refusal(response)["detail"] == (
            f"API key does not have access to the requested project: ID {world.theirs.project_id}."
        )
    elif operation.path.endswith("/copy_flags/"):
        # The body names the projects: tests/contract/flags/environments.json.
        assert read_refusal(response)["code"] == "required"
    elif response.status_code == 404:
        # A product is hidden from a key that can access none of its environments.
        assert "{product_id}" in operation.path
        assert read_refusal(response)["code"] == "not_found"
    elif not response.is_success:
        assert response.status_code == 403
        assert read_refusal(response)["detail"] in (PROJECTS_ONLY, NO_KEY_ACCESS)
    else:
        assert operation.method == "GET"


def test_requests_with_a_key_of_another_project_leave_no_activity(world: World) -> None:
    for operation in OPERATIONS:
        world.ask(operation.method, operation.url(world.theirs), world.limited)
    assert world.their_trail
    assert list_activity(world.admin, world.theirs) == world.their_trail
    assert world.admin.get(f"/api/personal_api_keys/{world.theirs.key_id}/").is_success


@in_projects_at_once
def test_unknown_project_is_404_before_the_scope_check(operation: Operation, world: World) -> None:
    for key in (world.scopeless, world.limited):
        response = world.ask(operation.method, operation.url(PathIds(project_id=999_999)), key)
        assert response.status_code == 404
        assert read_refusal(response)["detail"] == "Project not found."


@each_operation
def test_unacceptable_media_type_is_406(operation: Operation, world: World) -> None:
    url = operation.url(world.mine)
    response = world.ask(operation.method, url, world.scopeless, headers={"Accept": "image/png"})
    assert response.status_code == 406
    assert read_refusal(response)["code"] == "not_acceptable"


@each_path
def test_unknown_method_is_405_with_the_allowed_methods(path: str, world: World) -> None:
    allowed = list_allowed_methods(path)
    url = path.format(**NO_IDS.for_family("") | {"project_id": world.mine.project_id})
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"):
        if method in allowed:
            continue
        response = world.admin.request(method, url)
        assert response.status_code == 405
        assert read_refusal(response)["detail"] == f'Method "{method}" not allowed.'
        assert response.headers["allow"] == ", ".join(allowed)
    assert world.admin.options(url).headers["allow"] == ", ".join(allowed)


@each_path
def test_unknown_subpath_is_404(path: str, world: World) -> None:
    own = {"project_id": world.mine.project_id, "key_id": "@current"}
    url = path.format(**NO_IDS.for_family("") | own)
    response = world.ask("GET", url + "no_such_thing/at_all/", world.scopeless)
    assert response.status_code == 404
    assert read_refusal(response)["code"] == "not_found"


JSON, FORM = "application/json", "application/x-www-form-urlencoded"
PARTS = "multipart/form-data; boundary=cut"
FIELDS = (b"name", b"label", b"grace_s", b"scopes", b"plugin", b"job", b"orders")


def fill_every_field(value: bytes) -> bytes:
    """Return an object with this value in a field of each operation."""
    return b"{" + b", ".join(b'"%s": %s' % (name, value) for name in FIELDS) + b"}"


GARBAGE: dict[str, tuple[str, bytes]] = {
    "no JSON": (JSON, b"\x00\x01\x02"),
    "half an object": (JSON, b'{"name": '),
    "a list": (JSON, b"[]"),
    "a number": (JSON, b"1"),
    "null": (JSON, b"null"),
    "bytes that are no text": (JSON, b'{"name": "\xff\xfe"}'),
    "brackets without end": (JSON, b"[" * 100_000),
    "a number without end": (JSON, b"9" * 100_000),
    "wrong types": (JSON, fill_every_field(b"[{}]")),
    "nulls": (JSON, fill_every_field(b"null")),
    "NUL characters": (JSON, fill_every_field(b'"\\u0000"')),
    "half characters": (JSON, fill_every_field(b'"\\ud800"')),
    "a broken form": (FORM, b"name=%ff&label=%ff"),
    "a form without end": (FORM, b"a=1&" * 2000),
    "broken parts": (PARTS, b"--cut\r\n\r\n"),
    "parts without their boundary": ("multipart/form-data", b"--cut--"),
    "plain text": ("text/plain", b"name=x"),
    "no known kind": ("nonsense", b"{}"),
}
# Bodies that are not objects.
NEVER_READ = (
    GARBAGE.keys()
    - {"wrong types", "nulls", "NUL characters", "half characters"}
    - {"a form without end"}
)
# Null means the default job, and no new order.
ACCEPTED_NULLS = {("JobBody", "nulls"), ("RearrangeBody", "nulls")}
# Bodies without a known field change nothing.
NO_CHANGE = ("FlagBody", "CohortBody", "PersonBody")
# All fields are optional: a split keeps the first id, a preview takes a sample event.
ALL_OPTIONAL = ("SplitBody", "SampleBody", "PreviewBody")


@pytest.mark.parametrize("garbage", GARBAGE)
@with_body
def test_garbage_body_is_400(operation: Operation, garbage: str, world: World) -> None:
    content_type, body = GARBAGE[garbage]
    response = world.admin.request(
        operation.method,
        operation.url(world.mine),
        content=body,
        headers={"Content-Type": content_type},
    )
    if (operation.body_name, garbage) in ACCEPTED_NULLS:
        assert (response.status_code, response.content) == (200, b"")
        return
    may_be_empty = operation.body_name in ALL_OPTIONAL or (
        operation.method == "PATCH" and operation.body_name in NO_CHANGE
    )
    if may_be_empty and response.is_success:
        assert garbage not in NEVER_READ
        return
    assert response.status_code in (400, 415), response.text
    read_refusal(response)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(b"nonsense\r\n\r\n", id="no request"),
        pytest.param(b"GET /api/projects/ HTTP/9.9\r\n\r\n", id="no version"),
        pytest.param(b"GET /api/\xff HTTP/1.1\r\nHost: x\r\n\r\n", id="odd bytes in the path"),
        pytest.param(b"GET http://[ HTTP/1.1\r\nHost: x\r\n\r\n", id="half an address"),
        pytest.param(b"GET / HTTP/1.1\r\nno colon\r\n\r\n", id="no header"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\x00b\r\n\r\n", id="a NUL in a header"),
        pytest.param(
            b"POST /api/projects/ HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n",
            id="no length",
        ),
        pytest.param(
            b"POST /api/projects/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            id="no chunk",
        ),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", id="TLS"),
    ],
)
def test_invalid_http_has_the_common_error_shape(bad: bytes, live: LiveServer) -> None:
    status, body = send_raw(live, bad)
    assert status == 400
    assert not list(find_format_errors(status, "application/json", body))


def test_endless_headers_have_the_common_error_shape(live: LiveServer) -> None:
    status, body = send_raw(live, b"GET / HTTP/1.1\r\n" + b"X-More: and more\r\n" * 20_000)
    assert status == 431
    assert not list(find_format_errors(status, "application/json", body))


def send_raw(live: LiveServer, sent: bytes) -> tuple[int, bytes]:
    """Send bytes that may not be a request, and return the status and the body."""
    with live.connect() as connection:
        connection.sendall(sent)
        received = b""
        while b"\r\n\r\n" not in received or not received.endswith(b"}"):
            more = connection.recv(65_536)
            assert more, f"closed after {received!r}"
            received += more
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head.lower()
    return int(head.split()[1]), body


def test_concurrent_invalid_requests_change_nothing(world: World, live: LiveServer) -> None:
    def send_invalid_requests() -> set[int]:
        with live.client(key="phx_no-such-key") as client:
            return {client.get(f"/api/projects/{n}/").status_code for n in range(25)}

    assert set().union(*run_concurrently([send_invalid_requests] * 8)) == {401}
    assert world.ask("GET", f"/api/projects/{world.mine.project_id}/", world.limited).is_success
