"""Login from outside: passwords, limits, sessions, two-factor authentication and foreign pages."""

import json
import time
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Connection, delete, update

import hedgerow
from hedgerow.lib.tokens import hash_token
from hedgerow.people.attempts import (
    ACCOUNT_ATTEMPTS,
    ADDRESS_ATTEMPTS,
    CODE_ATTEMPTS,
    TOTAL_ATTEMPTS,
    TOTAL_CODE_ATTEMPTS,
)
from hedgerow.people.totp import STEP_S, compute_code
from hedgerow.storage.connect import DatabaseLocation, create_sync_engine
from hedgerow.storage.engine import generations
from hedgerow.storage.tables import login_attempts, sessions
from tests.contract.api.operations import NO_IDS, parse_operations
from tests.contract.people.conftest import OWNER, PASSWORD, SAME_ORIGIN, Service
from tests.support.live import wait_for

WRONG = "wrong horse battery"


def read_code(response: httpx.Response) -> str:
    code: str = response.json()["code"]
    return code


def open_database(service: Service) -> AbstractContextManager[Connection]:
    place = DatabaseLocation(url="", path=service.server.data / "hedgerow.db", timeout_s=20)
    return create_sync_engine(place).begin()


def age_sessions(service: Service, age: timedelta) -> None:
    """Make all sessions older, as time does. The service notices within a second or so."""
    then = datetime.now(UTC) - age
    with open_database(service) as connection:
        connection.execute(update(sessions).values(created_at=then, last_used_at=then))
        generations.advance(connection, "directory")


def test_first_start_names_the_configured_owner_and_prints_no_link(service: Service) -> None:
    assert OWNER in service.server.output
    assert "hgl_" not in service.server.output
    assert PASSWORD not in service.server.output + service.server.errors


def test_cookie_is_strict_and_only_for_the_api(service: Service) -> None:
    with service.browser() as browser:
        response = browser.post("/api/login/", json={"email": OWNER, "password": PASSWORD})
        cookies = response.headers.get_list("set-cookie")
        names = [("hedgerow_session", "7776000"), ("hedgerow_device", "31536000")]
        for cookie, (name, age) in zip(cookies, names, strict=True):
            assert cookie.startswith(f"{name}=")
            assert {part.strip().lower() for part in cookie.split(";")[1:]} == {
                "httponly",
                f"max-age={age}",
                "path=/api",
                "samesite=strict",
            }
        there = {**SAME_ORIGIN, "X-Forwarded-Host": "flags.example.com"}
        body = {"email": OWNER, "password": PASSWORD}
        response = browser.post("/api/login/", json=body, headers=there)
        assert "; Secure" in response.headers["set-cookie"]


def test_session_works_until_logout(service: Service) -> None:
    with service.log_in(OWNER.upper()) as browser:
        assert browser.get("/api/users/@me/").json()["email"] == OWNER
        stolen = dict(browser.cookies)
        assert browser.post("/api/logout/").status_code == 204
        response = httpx.get(
            f"{service.server.address}/api/users/@me/", cookies=stolen, verify=False
        )
        assert (response.status_code, read_code(response)) == (401, "authentication_failed")


def test_login_again_replaces_the_session(service: Service) -> None:
    with service.log_in(OWNER) as browser:
        before = dict(browser.cookies)
        browser.post("/api/login/", json={"email": OWNER, "password": PASSWORD})
        assert dict(browser.cookies) != before
        old = httpx.get(f"{service.server.address}/api/users/@me/", cookies=before, verify=False)
        assert old.status_code == 401


@pytest.mark.parametrize("cookie", ["hgs_" + "x" * 35, "", "%00", "é", "a" * 5000])
def test_invented_session_is_refused(service: Service, cookie: str) -> None:
    headers = {b"Cookie": f"hedgerow_session={cookie}".encode()}
    response = httpx.get(f"{service.server.address}/api/users/@me/", headers=headers, verify=False)
    assert response.status_code == 401


def test_two_session_cookies_are_refused(service: Service) -> None:
    with service.log_in(OWNER) as browser:
        token = browser.cookies["hedgerow_session"]
        headers = {"Cookie": f"hedgerow_session=hgs_tossed; hedgerow_session={token}"}
        response = httpx.get(
            f"{service.server.address}/api/users/@me/", headers=headers, verify=False
        )
        assert response.status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 201),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "{own}"}, 403),
        ({"Origin": "{own}"}, 201),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "{own}.evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 403),
    ],
)
def test_unsafe_method_with_a_session_needs_our_own_page(
    service: Service, headers: dict[str, str], status: int
) -> None:
    own = service.server.address
    with service.log_in(OWNER) as browser:
        cookies = dict(browser.cookies)
        sent = {name: value.format(own=own) for name, value in headers.items()}
        response = httpx.post(
            f"{own}/api/projects/", json={}, headers=sent, cookies=cookies, verify=False
        )
        assert response.status_code == status, response.text
    # Login itself, without a session: a foreign page must not log its visitor in.
    body = {"email": f"nobody {headers}@example.com", "password": WRONG}
    response = httpx.post(f"{own}/api/login/", json=body, headers=sent, verify=False)
    assert response.status_code == (400 if status == 201 else 403)


def test_foreign_page_cannot_read_with_a_session(service: Service) -> None:
    with service.log_in(OWNER) as browser:
        headers = {"Sec-Fetch-Site": "cross-site"}
        assert browser.get("/api/users/@me/", headers=headers).status_code == 403
        assert browser.get("/api/users/@me/", headers={"Sec-Fetch-Site": "none"}).is_success


def test_key_needs_no_origin(service: Service) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
    assert service.admin.post("/api/projects/", json={}, headers=headers).status_code == 201


def test_endpoints_that_answer_any_origin_never_read_the_cookie(service: Service) -> None:
    """With a session they answer what they answer without one."""
    document = service.admin.get("/api/schema/").json()
    foreign = {"Origin": "https://evil.example"}
    public = 0
    with service.log_in(OWNER) as browser:
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    with httpx.Client(base_url=service.server.address, headers=foreign, verify=False) as page:
        for operation in parse_operations(document):
            if operation.is_streaming:
                continue
            url = operation.url(NO_IDS)
            plain = page.request(operation.method, url, json={})
            if "access-control-allow-origin" not in plain.headers:
                continue
            public += 1
            headers = {"Cookie": cookie}
            with_cookie = page.request(operation.method, url, json={}, headers=headers)
            assert with_cookie.status_code == plain.status_code
            assert "hedgerow_session" not in with_cookie.headers.get("set-cookie", "")
    assert public >= 10


def test_only_these_modules_handle_the_cookie() -> None:
    """Fast endpoints, which answer any origin, are in other modules."""
    source = Path(hedgerow.__file__).parent
    found = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if "session_cookie import" in path.read_text()
    }
    assert found == {
        "http/api/people/login.py",
        "http/api/people/provider_login.py",
        "http/auth/access.py",
        "http/openapi/document.py",  # its name
    }


def test_wrong_password_and_unknown_name_look_the_same(service: Service) -> None:
    _, email = service.join()
    with service.browser() as browser:
        known = browser.post("/api/login/", json={"email": email, "password": WRONG})
        unknown = browser.post("/api/login/", json={"email": "no@example.com", "password": WRONG})
    assert known.status_code == unknown.status_code == 400
    assert known.content == unknown.content
    assert read_code(known) == "invalid_credentials"


@pytest.mark.parametrize("exists", [True, False])
def test_attempts_are_limited_per_account(service: Service, exists: bool) -> None:
    email = service.join()[1] if exists else "unknown@example.com"
    with service.browser() as browser:
        for _ in range(ACCOUNT_ATTEMPTS):
            response = browser.post("/api/login/", json={"email": email, "password": WRONG})
            assert response.status_code == 400
        right = {"email": f" {email.upper()} ", "password": PASSWORD}
        response = browser.post("/api/login/", json=right)
    assert (response.status_code, read_code(response)) == (429, "rate_limit_exceeded")
    assert 0 < int(response.headers["retry-after"]) <= 900
    if exists:
        assert service.log_in(email).get("/api/users/@me/").is_success  # from elsewhere


def test_attacker_with_many_addresses_does_not_lock_out_a_known_browser(service: Service) -> None:
    known, email = service.join()
    assert known.post("/api/logout/").status_code == 204
    wrong = {"email": email, "password": WRONG}
    with service.browser() as browser:
        assert browser.post("/api/login/", json=wrong).status_code == 400
    with open_database(service) as connection:  # as if others had gone on, from other addresses
        own = login_attempts.c.bucket == f"account {hash_token(email)}"
        counted = update(login_attempts).where(own).values(number=TOTAL_ATTEMPTS)
        assert connection.execute(counted).rowcount == 1
    right = {"email": email, "password": PASSWORD}
    # Neither a new browser, nor the cookie of a browser that has logged in to another account.
    assert service.browser().post("/api/login/", json=right).status_code == 429
    assert service.log_in(OWNER).post("/api/login/", json=right).status_code == 429
    forged = service.browser()
    forged.cookies.set("hedgerow_device", "gAAAAA_forged")
    assert forged.post("/api/login/", json=right).status_code == 429
    assert known.post("/api/login/", json=right).status_code == 200
    # A stolen cookie of a known browser gives no more attempts than a browser has.
    for _ in range(ACCOUNT_ATTEMPTS):
        assert known.post("/api/login/", json=wrong).status_code == 400
    assert known.post("/api/login/", json=right).status_code == 429


def test_new_password_ends_the_attempts_of_known_browsers(service: Service) -> None:
    known, email = service.join()
    new = {"password": "another horse battery", "current_password": PASSWORD}
    assert known.patch("/api/users/@me/", json=new).status_code == 200
    right = {"email": email, "password": new["password"]}
    with service.browser() as browser:
        assert browser.post("/api/login/", json=right | {"password": WRONG}).status_code == 400
    with open_database(service) as connection:
        own = login_attempts.c.bucket == f"account {hash_token(email)}"
        connection.execute(update(login_attempts).where(own).values(number=TOTAL_ATTEMPTS))
    assert known.post("/api/login/", json=right).status_code == 429


def test_codes_are_limited_for_all_browsers_together(service: Service) -> None:
    browser, email = service.join()
    right = {"email": email, "password": PASSWORD}
    before = [service.log_in(email) for _ in range(2)]
    secret = browser.post("/api/users/@me/two_factor_start_setup/").json()["secret"]
    code = compute_code(secret, int(time.time()) // STEP_S)
    enabled = browser.post("/api/users/@me/two_factor_validate/", json={"token": code})
    # Browsers that had logged in before the second factor was set are not known any more.
    for number in range(CODE_ATTEMPTS):
        wrong = before[number % 2].post("/api/login/", json={**right, "token": "000000"})
        assert read_code(wrong) == "2fa_invalid"
    assert before[0].post("/api/login/", json={**right, "token": "000000"}).status_code == 429
    with open_database(service) as connection:  # as if each of many known browsers had tried
        bucket = login_attempts.c.bucket
        connection.execute(delete(login_attempts).where(bucket == f"codes {hash_token(email)}"))
        total = update(login_attempts).where(bucket == f"all codes {hash_token(email)}")
        assert connection.execute(total.values(number=TOTAL_CODE_ATTEMPTS)).rowcount == 1
    recovery = {**right, "token": enabled.json()["backup_codes"][0]}
    assert before[1].post("/api/login/", json=recovery).status_code == 429


def test_slow_request_does_not_outlive_a_role(service: Service) -> None:
    """The body arrives after the role has been taken away."""
    browser, email = service.join(level=15)
    made = browser.post("/api/personal_api_keys/", json={"label": "x", "scopes": ["*"]})
    key = made.json()["value"]
    body = b'{"target_email": "eve@example.com", "level": 15}'
    head = (
        "POST /api/organizations/@current/invites/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        f"Authorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with service.server.connect() as connection:
        connection.sendall(head.encode() + body[:1])
        found = service.admin.get("/api/organizations/@current/members/").json()["results"]
        [id] = [each["user"]["uuid"] for each in found if each["user"]["email"] == email]
        path = f"/api/organizations/@current/members/{id}/"
        assert service.admin.patch(path, json={"level": 1}).json()["level"] == 1
        connection.sendall(body[1:])
        assert b" 401 " in connection.recv(20)
    assert browser.get("/api/users/@me/").is_success
    assert browser.get("/api/organizations/@current/invites/").status_code == 403


def test_attempts_are_limited_per_address(service: Service) -> None:
    with service.browser() as browser:
        for number in range(ADDRESS_ATTEMPTS):
            body = {"email": f"guess{number}@example.com", "password": WRONG}
            assert browser.post("/api/login/", json=body).status_code == 400
        response = browser.post("/api/login/", json={"email": OWNER, "password": PASSWORD})
    assert response.status_code == 429
    with service.log_in(OWNER) as elsewhere:
        assert elsewhere.get("/api/users/@me/").is_success


def test_codes_of_an_authenticator_work_once(service: Service) -> None:
    browser, email = service.join()
    secret = browser.post("/api/users/@me/two_factor_start_setup/").json()["secret"]
    step = int(time.time()) // STEP_S
    wrong = browser.post("/api/users/@me/two_factor_validate/", json={"token": "000000"})
    assert (wrong.status_code, read_code(wrong)) == (400, "2fa_invalid")
    code = compute_code(secret, step)
    enabled = browser.post("/api/users/@me/two_factor_validate/", json={"token": code})
    assert enabled.status_code == 200
    codes = enabled.json()["backup_codes"]
    assert len(set(codes)) == 10

    def log_in(**fields: str) -> httpx.Response:
        with service.browser() as other:
            body = {"email": email, "password": PASSWORD, **fields}
            return other.post("/api/login/", json=body)

    missing = log_in()
    assert (missing.status_code, read_code(missing)) == (401, "2fa_required")
    assert "set-cookie" not in missing.headers
    assert log_in(token=code).status_code == 400  # used when it was enabled
    assert log_in(token=compute_code(secret, step + 1)).status_code == 200
    assert log_in(token=compute_code(secret, step + 1)).status_code == 400
    assert log_in(token=codes[0].upper()).status_code == 200
    assert log_in(token=codes[0]).status_code == 400
    status = browser.get("/api/users/@me/two_factor_status/").json()
    assert status == {"is_enabled": True, "backup_codes_left": 9}
    assert browser.post("/api/users/@me/two_factor_disable/").status_code == 200
    assert log_in().status_code == 200


def test_password_change_ends_other_sessions(service: Service) -> None:
    browser, email = service.join()
    other = service.log_in(email)
    new = {"password": "another horse battery", "current_password": WRONG}
    assert read_code(browser.patch("/api/users/@me/", json=new)) == "invalid_credentials"
    new["current_password"] = PASSWORD
    assert browser.patch("/api/users/@me/", json=new).status_code == 200
    assert browser.get("/api/users/@me/").status_code == 200
    assert other.get("/api/users/@me/").status_code == 401
    service.log_in(email, new["password"])


def test_no_key_changes_how_a_person_logs_in(service: Service) -> None:
    for method, path in (
        ("PATCH", "/api/users/@me/"),
        ("POST", "/api/users/@me/two_factor_start_setup/"),
        ("POST", "/api/users/@me/two_factor_disable/"),
    ):
        assert service.admin.request(method, path, json={}).status_code == 403


def test_sessions_are_listed_and_ended(service: Service) -> None:
    browser, email = service.join()
    other = service.log_in(email)
    listed = browser.get("/api/users/@me/sessions/").json()
    assert [each["is_current"] for each in listed] == [False, True]
    assert "hgs_" not in str(listed)
    ended = browser.delete(f"/api/users/@me/sessions/{listed[0]['id']}/")
    assert ended.status_code == 204
    assert other.get("/api/users/@me/").status_code == 401
    assert browser.delete("/api/users/@me/sessions/no-such/").status_code == 404


def test_old_session_must_log_in_again_for_keys_members_and_secrets(service: Service) -> None:
    with service.log_in(OWNER) as browser:
        key = {"label": "new", "scopes": ["*"]}
        assert browser.post("/api/personal_api_keys/", json=key).status_code == 201
        age_sessions(service, timedelta(minutes=11))
        setup = "/api/users/@me/two_factor_start_setup/"
        wait_for(lambda: browser.post(setup, json={}).status_code == 403, at_most_s=120)
        for method, path, body in (
            ("POST", "/api/personal_api_keys/", key),
            ("POST", "/api/organizations/@current/invites/", {"target_email": "x@example.com"}),
            ("POST", "/api/organizations/@current/roles/", {"name": "x", "scopes": ["query:read"]}),
            ("PATCH", "/api/projects/1/rotate_secret_token/", {}),
            ("PATCH", "/api/projects/1/reset_token/", {}),
            ("POST", setup, {}),
        ):
            response = browser.request(method, path, json=body)
            assert (response.status_code, read_code(response)) == (403, "login_not_recent"), path
        assert browser.get("/api/personal_api_keys/").status_code == 200
        assert browser.post("/api/projects/", json={}).status_code == 201
        browser.post("/api/login/", json={"email": OWNER, "password": PASSWORD})
        assert browser.post("/api/personal_api_keys/", json=key).status_code == 201
        age_sessions(service, timedelta(days=14, minutes=1))
        wait_for(lambda: browser.get("/api/users/@me/").status_code == 401, at_most_s=120)


def test_no_secret_of_a_person_is_logged_or_stored(service: Service) -> None:
    browser, _ = service.join()
    token = browser.cookies["hedgerow_session"]
    browser.get("/api/users/@me/", headers={"X-Request-Id": token})
    stored = (service.server.data / "hedgerow.db").read_bytes()
    stored += (service.server.data / "hedgerow.db-wal").read_bytes()
    assert token.encode() not in stored
    assert PASSWORD.encode() not in stored
    assert "hgs_" not in service.server.errors


@pytest.mark.parametrize("path", ["login", "setup", "signup", "reset/confirm", "logout"])
def test_hostile_bodies_get_no_5xx(service: Service, path: str) -> None:
    names = ("email", "password", "token", "first_name")
    values: list[object] = [
        None,
        5,
        True,
        [],
        {},
        "",
        " ",
        "\x00",
        "\ud800",
        "x" * 300_000,
        "é" * 99,
    ]
    bodies: list[object] = [*(dict.fromkeys(names, each) for each in values), [], "text", 5, None]
    with service.browser() as browser:
        for body in bodies:
            sent = json.dumps(body).encode()
            response = browser.post(f"/api/{path}/", content=sent)
            assert response.status_code < 500, f"{sent[:100]!r}: {response.text}"
        for content in (b"", b"{", b"\xff", b"a=1&a=2"):
            assert browser.post(f"/api/{path}/", content=content).status_code < 500
