"""Every route, asked wrongly in every way we know: the right refusal, always in the one shape."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.contract.api.operations import (
    ANY_KEY,
    NO_IDS,
    OF_ONE_FAMILY,
    OF_ONE_ROOT,
    OPERATIONS,
    Ids,
    Operation,
    ids_with_records,
    methods_of,
)
from tests.contract.api.shape import faults
from tests.live import LiveServer, side_by_side

NO_KEY_ACCESS = "This action does not support Personal API Key access"
PROJECTS_ONLY = "API keys with scoped projects are only supported on project-based endpoints."

each_operation = pytest.mark.parametrize("operation", OF_ONE_ROOT, ids=str)
each_path = pytest.mark.parametrize("path", sorted({operation.path for operation in OF_ONE_ROOT}))
in_projects = pytest.mark.parametrize(
    "operation", [operation for operation in OPERATIONS if operation.in_project], ids=str
)
with_body = pytest.mark.parametrize(
    "operation", [operation for operation in OF_ONE_FAMILY if operation.body], ids=str
)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Two projects and keys of too little power, on a server whose first key has all of it."""

    admin: httpx.Client
    client: httpx.Client
    mine: Ids
    theirs: Ids
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
            made: dict[str, Any] = admin.post("/api/personal_api_keys/", json=body).json()
            return made

        their_key_id = key("Theirs", "*", teams=(ids[1],))["id"]
        mine, theirs = (ids_with_records(admin, project, their_key_id) for project in ids)
        yield World(
            admin=admin,
            client=client,
            mine=mine,
            theirs=theirs,
            their_token=projects[1]["api_token"],
            their_trail=trail(admin, theirs),
            scopeless=key("Scopeless", "webhook:read")["value"],
            limited=key("Limited", "*", teams=(ids[0],))["value"],
        )


def trail(admin: httpx.Client, ids: Ids) -> list[dict[str, Any]]:
    """What anybody ever did in a project. Jobs that run there by themselves are nobody's doing."""
    path = f"/api/projects/{ids.project_id}/activity_log/"
    entries: list[dict[str, Any]] = admin.get(path, params={"limit": 1000}).json()["results"]
    return [entry for entry in entries if not entry["user"].get("is_system")]


def refusal(answer: httpx.Response) -> dict[str, Any]:
    """The error of an answer, which has the one shape."""
    wrong = list(faults(answer.status_code, answer.headers.get("content-type"), answer.content))
    assert not wrong, f"{answer.request.method} {answer.request.url}: {wrong}"
    error: dict[str, Any] = answer.json()
    return error


@each_operation
def test_without_a_key_every_operation_answers_401(operation: Operation, world: World) -> None:
    answer = world.ask(operation.method, operation.url(world.mine))
    assert refusal(answer)["code"] == "not_authenticated"
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


@each_operation
def test_with_a_wrong_key_every_operation_answers_401(operation: Operation, world: World) -> None:
    answer = world.ask(operation.method, operation.url(world.mine), "phx_no-such-key")
    assert refusal(answer)["code"] == "authentication_failed"
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


@each_operation
def test_without_its_scope_every_operation_answers_403(operation: Operation, world: World) -> None:
    url = operation.url(world.mine)
    answer = world.ask(operation.method, url, world.scopeless)
    assert answer.status_code == 403
    lacks = f"API key missing required scope '{operation.scope}'"
    is_for_all_access = operation.scope in ("*", ANY_KEY)
    assert refusal(answer)["detail"] == (NO_KEY_ACCESS if is_for_all_access else lacks)


@each_operation
def test_a_key_of_another_project_learns_and_changes_nothing(
    operation: Operation, world: World
) -> None:
    url = operation.url(world.theirs)
    answer = world.ask(operation.method, url, world.limited)
    assert world.their_token not in answer.text
    assert str(world.theirs.key_id) not in answer.text
    if operation.in_project:
        assert answer.status_code == 403
        assert refusal(answer)["detail"] == (
            f"API key does not have access to the requested project: ID {world.theirs.project_id}."
        )
    elif not answer.is_success:
        assert answer.status_code == 403
        assert refusal(answer)["detail"] in (PROJECTS_ONLY, NO_KEY_ACCESS)
    else:
        assert operation.method == "GET"


def test_what_a_key_of_another_project_tried_left_no_trace(world: World) -> None:
    for operation in OPERATIONS:
        world.ask(operation.method, operation.url(world.theirs), world.limited)
    assert world.their_trail
    assert trail(world.admin, world.theirs) == world.their_trail
    assert world.admin.get(f"/api/personal_api_keys/{world.theirs.key_id}/").is_success


@in_projects
def test_an_unknown_project_answers_404_before_any_scope(
    operation: Operation, world: World
) -> None:
    for key in (world.scopeless, world.limited):
        answer = world.ask(operation.method, operation.url(Ids(project_id=999_999)), key)
        assert answer.status_code == 404
        assert refusal(answer)["detail"] == "Project not found."


@each_operation
def test_an_answer_that_the_caller_cannot_read_is_406(operation: Operation, world: World) -> None:
    url = operation.url(world.mine)
    answer = world.ask(operation.method, url, world.scopeless, headers={"Accept": "image/png"})
    assert answer.status_code == 406
    assert refusal(answer)["code"] == "not_acceptable"


@each_path
def test_a_method_that_a_path_does_not_take_is_405_with_those_it_does(
    path: str, world: World
) -> None:
    allowed = methods_of(path)
    url = path.format(**NO_IDS.of_family("") | {"project_id": world.mine.project_id})
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"):
        if method in allowed:
            continue
        answer = world.admin.request(method, url)
        assert answer.status_code == 405
        assert refusal(answer)["detail"] == f'Method "{method}" not allowed.'
        assert answer.headers["allow"] == ", ".join(allowed)
    assert world.admin.options(url).headers["allow"] == ", ".join(allowed)


@each_path
def test_a_path_below_a_known_one_is_404(path: str, world: World) -> None:
    own = {"project_id": world.mine.project_id, "key_id": "@current"}
    url = path.format(**NO_IDS.of_family("") | own)
    answer = world.ask("GET", url + "no_such_thing/at_all/", world.scopeless)
    assert answer.status_code == 404
    assert refusal(answer)["code"] == "not_found"


JSON, FORM = "application/json", "application/x-www-form-urlencoded"
PARTS = "multipart/form-data; boundary=cut"
FIELDS = (b"name", b"label", b"grace_s", b"scopes", b"plugin", b"job", b"orders")


def every_field(value: bytes) -> bytes:
    """An object that gives this value to a field of each operation."""
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
    "wrong types": (JSON, every_field(b"[{}]")),
    "nulls": (JSON, every_field(b"null")),
    "NUL characters": (JSON, every_field(b'"\\u0000"')),
    "half characters": (JSON, every_field(b'"\\ud800"')),
    "a broken form": (FORM, b"name=%ff&label=%ff"),
    "a form without end": (FORM, b"a=1&" * 2000),
    "broken parts": (PARTS, b"--cut\r\n\r\n"),
    "parts without their boundary": ("multipart/form-data", b"--cut--"),
    "plain text": ("text/plain", b"name=x"),
    "no known kind": ("nonsense", b"{}"),
}
# What is no object at all.
NEVER_READ = (
    GARBAGE.keys()
    - {"wrong types", "nulls", "NUL characters", "half characters"}
    - {"a form without end"}
)
# Without a wish, the default job runs, and no order changes.
HARMLESS = {("JobBody", "nulls"), ("RearrangeBody", "nulls")}
# Changes that give no field that counts change nothing.
NO_CHANGE = ("FlagBody", "CohortBody", "PersonBody")
# A split that does not say who stays lets the first id stay; a trial of nothing takes a sample.
NOTHING_NEEDED = ("SplitBody", "TrialBody")


@pytest.mark.parametrize("garbage", GARBAGE)
@with_body
def test_garbage_instead_of_a_body_is_the_callers_fault(
    operation: Operation, garbage: str, world: World
) -> None:
    content_type, body = GARBAGE[garbage]
    answer = world.admin.request(
        operation.method,
        operation.url(world.mine),
        content=body,
        headers={"Content-Type": content_type},
    )
    if (operation.body_name, garbage) in HARMLESS:
        assert (answer.status_code, answer.content) == (200, b"")
        return
    may_be_empty = operation.body_name in NOTHING_NEEDED or (
        operation.method == "PATCH" and operation.body_name in NO_CHANGE
    )
    if may_be_empty and answer.is_success:
        assert garbage not in NEVER_READ
        return
    assert answer.status_code in (400, 415), answer.text
    refusal(answer)


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
def test_what_is_no_http_is_refused_in_the_same_shape(bad: bytes, live: LiveServer) -> None:
    status, body = raw_answer(live, bad)
    assert status == 400
    assert not list(faults(status, "application/json", body))


def test_headers_without_end_are_refused_in_the_same_shape(live: LiveServer) -> None:
    status, body = raw_answer(live, b"GET / HTTP/1.1\r\n" + b"X-More: and more\r\n" * 20_000)
    assert status == 431
    assert not list(faults(status, "application/json", body))


def raw_answer(live: LiveServer, sent: bytes) -> tuple[int, bytes]:
    """The status and the body that come back for bytes which are perhaps no request."""
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


def test_many_wrong_requests_at_once_leave_the_service_as_it_was(
    world: World, live: LiveServer
) -> None:
    def ask_wrongly() -> set[int]:
        with live.client(key="phx_no-such-key") as client:
            return {client.get(f"/api/projects/{n}/").status_code for n in range(25)}

    assert set().union(*side_by_side([ask_wrongly] * 8)) == {401}
    assert world.ask("GET", f"/api/projects/{world.mine.project_id}/", world.limited).is_success
