"""Login with an OpenID Connect provider: a real one, and one that lies."""

import base64
import hashlib
import hmac
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import jwt
import pytest

from hedgerow.app.commands.people import check_login_settings
from hedgerow.errors import OperatorError
from hedgerow.people.totp import STEP_S, compute_code
from hedgerow.settings import load_settings
from tests.contract.people.conftest import OWNER, PASSWORD, Browser, Service
from tests.support.live import LiveServer, find_free_port, run_in_process, wait_for
from tests.support.oidc import (
    CLIENT_ID,
    CLIENT_SECRET,
    KEY_ID,
    ScriptedProvider,
    generate_key,
    read_query,
    to_jwk,
)

BEGIN, END = "/api/login/oidc/", "/api/login/oidc/callback/"
FROM_PROVIDER = {"Sec-Fetch-Site": "cross-site"}
KNOWN_DOMAIN = "known.example"

Lie = Callable[[ScriptedProvider, dict[str, Any]], str]


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as provider:
        yield provider


def start(folder: Path, issuer: str, **settings: str) -> LiveServer:
    port = find_free_port()
    return LiveServer(
        folder,
        port=port,
        public_url=f"http://127.0.0.1:{port}",
        oidc_issuer=issuer,
        oidc_client_id=CLIENT_ID,
        oidc_client_secret=CLIENT_SECRET,
        bootstrap_owner_email=OWNER,
        trusted_proxies="127.0.0.0/8",
        **settings,
    )


@pytest.fixture(scope="module")
def service(
    provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    with (
        start(
            tmp_path_factory.mktemp("provider"),
            provider.issuer,
            bootstrap_owner_password=PASSWORD,
        ) as server,
        server.client() as admin,
    ):
        server.wait_ready()
        service = Service(server=server, admin=admin)
        yield service
        for each in service.opened:
            each.close()


def begin(browser: httpx.Client, next: str = "/") -> dict[str, str]:
    response = browser.get(BEGIN, params=httpx.QueryParams(next=next))
    assert response.status_code == 303, response.text
    return read_query(response.headers["location"])


def end(browser: httpx.Client, **answer: str) -> str:
    """Return where the browser is sent."""
    response = browser.get(END, params=answer, headers=FROM_PROVIDER)
    assert response.status_code == 303, response.text
    return str(response.headers["location"])


def log_in(service: Service, provider: ScriptedProvider, **claims: Any) -> tuple[Browser, str]:
    browser = service.browser()
    query = begin(browser)
    code = provider.issue(query, provider.sign(provider.build_claims(query, **claims)))
    return browser, end(browser, code=code, state=query["state"])


def test_invited_person_joins_with_the_roles_of_the_invite(
    service: Service, provider: ScriptedProvider
) -> None:
    invite = service.invite(project_roles={"1": "viewer"})
    subject = str(uuid4())
    email = invite["target_email"]
    browser, place = log_in(service, provider, sub=subject, email=email.upper())
    assert place == "/#logged-in"
    me = browser.get("/api/users/@me/").json()
    assert (me["email"], me["first_name"], me["has_password"]) == (email, "Ann", False)
    assert browser.get("/api/projects/1/feature_flags/").status_code == 200
    assert browser.post("/api/projects/1/feature_flags/", json={"key": "x"}).status_code == 403
    # From now on the identity counts, whatever the email.
    again, place = log_in(service, provider, sub=subject, email=OWNER)
    assert place == "/#logged-in"
    assert again.get("/api/users/@me/").json()["email"] == email
    activity = service.admin.get("/api/projects/1/activity_log/").json()
    assert "hgi_" not in json.dumps(activity)


def test_open_session_at_the_provider_is_no_recent_login(
    service: Service, provider: ScriptedProvider
) -> None:
    invite, subject = service.invite(), str(uuid4())
    email, key = invite["target_email"], {"label": "mine", "scopes": ["feature_flag:read"]}
    an_hour_ago = int(time.time()) - 3_600
    browser, _ = log_in(service, provider, sub=subject, email=email, auth_time=an_hour_ago)
    refused = browser.post("/api/personal_api_keys/", json=key)
    assert (refused.status_code, refused.json()["code"]) == (403, "login_not_recent")
    query = begin(browser)
    assert (query["prompt"], query["max_age"]) == ("login", "0")
    claims = provider.build_claims(query, sub=subject, email=email, auth_time=int(time.time()))
    code = provider.issue(query, provider.sign(claims))
    assert end(browser, code=code, state=query["state"]) == "/#logged-in"
    assert browser.post("/api/personal_api_keys/", json=key).status_code == 201


@pytest.mark.parametrize("auth_time", ["now", -1, 10**400, 1e300, None])
def test_invalid_times_of_logins_count_as_now(
    service: Service, provider: ScriptedProvider, auth_time: object
) -> None:
    email = service.invite()["target_email"]
    browser, place = log_in(service, provider, sub=str(uuid4()), email=email, auth_time=auth_time)
    assert place == "/#logged-in"
    assert browser.post("/api/users/@me/two_factor_start_setup/").status_code == 200


def test_person_whom_nobody_invited_cannot_join(
    service: Service, provider: ScriptedProvider
) -> None:
    browser, place = log_in(service, provider, sub=str(uuid4()), email="stranger@example.com")
    assert place == "/login?error=not_invited"
    assert browser.get("/api/users/@me/").status_code == 401


def test_account_is_connected_once(service: Service, provider: ScriptedProvider) -> None:
    """A person who later gets the email of another one does not get its account."""
    _, email = service.join()
    assert log_in(service, provider, sub=str(uuid4()), email=email)[1] == "/#logged-in"
    assert log_in(service, provider, sub=str(uuid4()), email=email)[1].endswith("other_account")
    assert run_in_process("users", "disconnect", email, data=service.server.data).returncode == 0
    assert log_in(service, provider, sub=str(uuid4()), email=email)[1] == "/#logged-in"


@pytest.mark.parametrize(
    "claims",
    [
        {"email_verified": False},
        {"email_verified": ...},
        {"email_verified": "true"},
        {"email_verified": 1},
        {"email": ...},
        {"email": ["owner@example.com"]},
        {"email": "\u212aevin@example.com"},  # in lower case, it is kevin
        {"email": "owner@example.com\nx@example.com"},
    ],
)
def test_email_must_be_verified(
    service: Service, provider: ScriptedProvider, claims: dict[str, Any]
) -> None:
    subject = str(uuid4())
    provider.user_info = {"sub": subject, "email_verified": False}
    _, place = log_in(service, provider, **{"email": OWNER, "sub": subject, **claims})
    assert place == "/login?error=email_not_verified"


def test_email_may_be_in_the_user_info(service: Service, provider: ScriptedProvider) -> None:
    email, subject = service.invite()["target_email"], str(uuid4())
    provider.user_info = {"sub": subject, "email": email, "email_verified": True}
    assert log_in(service, provider, sub=subject, email=...)[1] == "/#logged-in"
    provider.user_info = {"sub": "someone else", "email": OWNER, "email_verified": True}
    _, place = log_in(service, provider, sub=str(uuid4()), email=...)
    assert place == "/login?error=provider_failed"


def test_second_factor_is_not_bypassed(service: Service, provider: ScriptedProvider) -> None:
    """Only the person itself, who has logged in with the code, connects its account."""
    browser, email = service.join()
    secret = browser.post("/api/users/@me/two_factor_start_setup/").json()["secret"]
    code = _compute_code(secret)
    body = {"token": code}
    assert browser.post("/api/users/@me/two_factor_validate/", json=body).is_success
    _, place = log_in(service, provider, sub="with code", email=email)
    assert place == "/login?error=password_needed"
    query = begin(browser)
    claims = provider.build_claims(query, sub="with code", email=email)
    before = dict(browser.cookies)
    code = provider.issue(query, provider.sign(claims))
    assert end(browser, code=code, state=query["state"]) == "/#logged-in"
    assert log_in(service, provider, sub="with code", email=email)[1] == "/#logged-in"
    # The login replaced the session, although browsers do not send its cookie to the callback.
    old = {"hedgerow_session": before["hedgerow_session"]}
    assert (
        httpx.get(f"{service.server.address}/api/users/@me/", cookies=old, verify=False).status_code
        == 401
    )


def _compute_code(secret: str) -> str:
    return compute_code(secret, int(time.time()) // STEP_S)


def sign_with_none(provider: ScriptedProvider, claims: dict[str, Any]) -> str:
    return jwt.encode(claims, "", algorithm="none", headers={"kid": KEY_ID})


def sign_with_public_key(provider: ScriptedProvider, claims: dict[str, Any]) -> str:
    """The public key as the secret of an HMAC, in the forms in which it is published."""
    return _sign_with_hmac(claims, json.dumps(provider.keys[0]).encode())


def sign_with_client_secret(provider: ScriptedProvider, claims: dict[str, Any]) -> str:
    return _sign_with_hmac(claims, CLIENT_SECRET.encode())


def _sign_with_hmac(claims: dict[str, Any], secret: bytes) -> str:
    def encode(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    header = {"alg": "HS256", "typ": "JWT", "kid": KEY_ID}
    text = encode(json.dumps(header).encode()) + b"." + encode(json.dumps(claims).encode())
    digest = hmac.new(secret, text, hashlib.sha256).digest()
    return (text + b"." + encode(digest)).decode()


def sign_with_other_key(provider: ScriptedProvider, claims: dict[str, Any]) -> str:
    return jwt.encode(claims, OTHER_KEY, algorithm="RS256", headers={"kid": KEY_ID})


def sign_with_own_header_key(provider: ScriptedProvider, claims: dict[str, Any]) -> str:
    header = {"kid": "mine", "jwk": to_jwk(OTHER_KEY, "mine"), "jku": f"{provider.issuer}/keys"}
    return jwt.encode(claims, OTHER_KEY, algorithm="RS256", headers=header)


def sign_with_other_algorithm(provider: ScriptedProvider, claims: dict[str, Any]) -> str:
    return jwt.encode(claims, provider.key, algorithm="PS256", headers={"kid": KEY_ID})


def claim(**lies: Any) -> Lie:
    def sign(provider: ScriptedProvider, claims: dict[str, Any]) -> str:
        sent = {name: value for name, value in {**claims, **lies}.items() if value is not ...}
        return provider.sign(sent)

    return sign


OTHER_KEY = generate_key()
LIES: dict[str, Lie] = {
    "other audience": claim(aud="other"),
    "no audience": claim(aud=...),
    "several audiences without a party": claim(aud=[CLIENT_ID, "other"]),
    "several audiences and another party": claim(aud=[CLIENT_ID, "other"], azp="other"),
    "other party": claim(azp="other"),
    "other issuer": claim(iss="https://evil.example"),
    "other nonce": claim(nonce="of another login"),
    "no nonce": claim(nonce=...),
    "nonce as a list": claim(nonce=["x"]),
    "expired": claim(exp=int(time.time()) - 120),
    "no expiry": claim(exp=...),
    "endless": claim(exp=float("inf")),
    "issued in the future": claim(iat=int(time.time()) + 3600),
    "not yet valid": claim(nbf=int(time.time()) + 3600),
    "no subject": claim(sub=...),
    "empty subject": claim(sub=""),
    "subject as a number": claim(sub=5),
    "subject with a null character": claim(sub="a\0b"),
    "long subject": claim(sub="x" * 300),
    "not signed": sign_with_none,
    "public key as a secret": sign_with_public_key,
    "client secret": sign_with_client_secret,
    "other key": sign_with_other_key,
    "key in the header": sign_with_own_header_key,
    "algorithm that is not announced": sign_with_other_algorithm,
    "unknown key id": lambda provider, claims: provider.sign(claims, "unknown"),
    "garbage": lambda provider, claims: "a.b.c",
    "empty": lambda provider, claims: "",
    "changed": lambda provider, claims: provider.sign(claims)[:-5] + "AAAAA",
}


@pytest.mark.parametrize("name", LIES)
def test_lies_are_refused(service: Service, provider: ScriptedProvider, name: str) -> None:
    browser = service.browser()
    query = begin(browser)
    token = LIES[name](provider, provider.build_claims(query, sub="liar", email=OWNER))
    code = provider.issue(query, token)
    assert end(browser, code=code, state=query["state"]) == "/login?error=provider_failed"
    assert browser.get("/api/users/@me/").status_code == 401


def test_callback_works_once_and_in_the_same_browser(
    service: Service, provider: ScriptedProvider
) -> None:
    email = service.invite()["target_email"]
    browser, victim = service.browser(), service.browser()
    query = begin(browser)
    claims = provider.build_claims(query, sub=str(uuid4()), email=email)
    answer = {"code": provider.issue(query, provider.sign(claims)), "state": query["state"]}
    # The login of an attacker, in the browser of a victim: without a login of its own, and with.
    assert end(victim, **answer) == "/login?error=login_expired"
    begin(victim)
    assert end(victim, **answer) == "/login?error=login_expired"
    assert victim.get("/api/users/@me/").status_code == 401
    kept = dict(browser.cookies)
    assert end(browser, **{**answer, "state": "x"}) == "/login?error=login_expired"
    for name, value in kept.items():
        browser.cookies.set(name, value, path=BEGIN.rstrip("/"))
    assert end(browser, **answer) == "/#logged-in"
    # Replayed by someone who has copied the address and the cookies.
    thief = service.browser()
    for name, value in kept.items():
        thief.cookies.set(name, value)
    assert end(thief, **answer) == "/login?error=login_expired"
    assert thief.get("/api/users/@me/").status_code == 401


def test_code_of_another_login_is_refused(service: Service, provider: ScriptedProvider) -> None:
    """A stolen code needs the verifier of the browser that it was issued to."""
    victim, thief = service.browser(), service.browser()
    query, own = begin(victim), begin(thief)
    code = provider.issue(query, provider.sign(provider.build_claims(query, email=OWNER)))
    assert end(thief, code=code, state=own["state"]) == "/login?error=provider_failed"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"error": "access_denied"}, "login_canceled"),
        ({}, "login_canceled"),
        ({"code": ""}, "login_canceled"),
        ({"code": "x", "iss": "https://evil.example"}, "provider_failed"),
        ({"code": "\0\ud7ff" + "x" * 9000}, "provider_failed"),
    ],
)
def test_answers_without_a_login(service: Service, answer: dict[str, str], error: str) -> None:
    browser = service.browser()
    assert end(browser, **answer) == "/login?error=login_expired"
    state = begin(browser)["state"]
    assert end(browser, state=state, **answer) == f"/login?error={error}"


@pytest.mark.parametrize(
    ("next", "shown"),
    [
        ("/project/1/flags?search=a%20b", "/project/1/flags?search=a%20b"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("/\r\nX: y", "/"),
        ("/api/logout/", "/"),
        ("/" + "x" * 5000, "/"),
    ],
)
def test_next_page_is_our_own(
    service: Service, provider: ScriptedProvider, next: str, shown: str
) -> None:
    browser = service.log_in(OWNER)
    query = begin(browser, next)
    claims = provider.build_claims(query, sub="owner", email=OWNER)
    code = provider.issue(query, provider.sign(claims))
    assert end(browser, code=code, state=query["state"]) == f"{shown}#logged-in"


def test_foreign_page_cannot_begin_a_login(service: Service) -> None:
    with service.browser() as browser:
        assert browser.get(BEGIN, headers=FROM_PROVIDER).status_code == 403


def test_keys_can_be_replaced(service: Service, provider: ScriptedProvider) -> None:
    new = generate_key()
    provider.keys = [*provider.keys, to_jwk(new, "key 2")]

    def is_accepted() -> bool:
        browser = service.browser()
        query = begin(browser)
        claims = provider.build_claims(query, sub="owner", email=OWNER)
        token = jwt.encode(claims, new, algorithm="RS256", headers={"kid": "key 2"})
        return end(browser, code=provider.issue(query, token), state=query["state"]).startswith(
            "/#"
        )

    wait_for(is_accepted, 30)  # keys are fetched again every few seconds at most


def test_no_secret_of_a_login_is_logged(service: Service, provider: ScriptedProvider) -> None:
    browser = service.browser()
    query = begin(browser)
    code = provider.issue(query, provider.sign(provider.build_claims(query, aud="other")))
    end(browser, code=code, state=query["state"])
    wait_for(lambda: "InvalidAudienceError" in service.server.errors, 120)
    for secret in (CLIENT_SECRET, query["state"], query["nonce"], "code_verifier", code, "eyJ"):
        assert secret not in service.server.errors


@pytest.fixture(scope="module")
def real_provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = find_free_port()
    command = [
        sys.executable,
        "-m",
        "oidc_provider_mock",
        "--port",
        port,
        "--require-nonce",
        "true",
    ]
    log = (tmp_path_factory.mktemp("mock") / "log").open("wb")
    with log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        address = f"http://127.0.0.1:{port}"

        def is_ready() -> bool:
            with suppress(httpx.TransportError):
                return httpx.get(
                    f"{address}/.well-known/openid-configuration", verify=False
                ).is_success
            return False

        wait_for(is_ready, 60)
        yield address
        process.terminate()


def test_real_provider_is_the_only_way_in(real_provider: str, tmp_path: Path) -> None:
    settings = {
        "password_login": "false",
        "oidc_domains": KNOWN_DOMAIN,
        "oidc_new_members": "1=editor,404=admin",
        "bootstrap_owner_password": PASSWORD,
    }
    claims = {"email": f"eva@{KNOWN_DOMAIN}", "email_verified": True, "name": "Eva"}
    httpx.put(f"{real_provider}/users/eva", json=claims, verify=False).raise_for_status()
    claims = {"email": "eva@other.example", "email_verified": True}
    httpx.put(f"{real_provider}/users/other", json=claims, verify=False).raise_for_status()
    with start(tmp_path, real_provider, **settings) as server, server.client() as admin:
        server.wait_ready()
        service = Service(server=server, admin=admin)
        browser, place = _log_in_for_real(service, "eva")
        assert place == "/#logged-in"
        assert browser.get("/api/users/@me/").json()["first_name"] == "Eva"
        flag = {"key": "of-eva", "filters": {"groups": [{}]}}
        made = browser.post("/api/projects/1/feature_flags/", json=flag)
        assert made.status_code == 201
        assert _log_in_for_real(service, "other")[1] == "/login?error=domain_not_allowed"
        _check_passwords_are_refused(service)
        _check_login_link(service)
        for each in service.opened:
            each.close()


def _log_in_for_real(service: Service, subject: str) -> tuple[Browser, str]:
    browser = service.browser()
    url = browser.get(BEGIN).headers["location"]
    answer = httpx.post(url, data={"sub": subject}, verify=False)
    assert answer.status_code == 302, answer.text
    return browser, end(browser, **read_query(answer.headers["location"]))


def _check_passwords_are_refused(service: Service) -> None:
    browser = service.browser()
    link = service.invite()["link"]
    for path, body in (
        ("login", {"email": OWNER, "password": PASSWORD}),
        ("reset", {"email": OWNER}),
        ("reset/confirm", {"token": "hgl_x", "password": PASSWORD}),
        ("signup", {"token": link, "first_name": "Bob", "password": PASSWORD}),
    ):
        response = browser.post(f"/api/{path}/", json=body)
        assert (response.status_code, response.json()["code"]) == (400, "sso_enforced"), path


def _check_login_link(service: Service) -> None:
    """The way in for the operator if the provider is down."""
    printed = run_in_process("users", "login-link", OWNER, "--json", data=service.server.data)
    body = {"token": json.loads(printed.stdout)["link"]}
    browser = service.browser()
    assert browser.post("/api/login/link/", json=body, headers=FROM_PROVIDER).status_code == 403
    assert browser.post("/api/login/link/", json=body).status_code == 200
    assert browser.get("/api/users/@me/").json()["email"] == OWNER
    again = service.browser().post("/api/login/link/", json=body)
    assert (again.status_code, again.json()["code"]) == (400, "invalid_token")
    reset = {**body, "password": PASSWORD}
    assert service.browser().post("/api/setup/", json=reset).status_code == 400


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"password_login": "false"}, "HEDGEROW_OIDC_ISSUER"),
        ({"oidc_issuer": "https://a.example"}, "HEDGEROW_OIDC_CLIENT_ID"),
        (
            {"oidc_issuer": "https://a.example", "oidc_client_id": "x", "public_url": "https://b.c"}
            | {"oidc_new_members": "1=viewer"},
            "HEDGEROW_OIDC_DOMAINS",
        ),
        ({"smtp_host": "localhost"}, "HEDGEROW_MAIL_FROM"),
        ({"smtp_host": "localhost", "mail_from": "a@b.c"}, "HEDGEROW_PUBLIC_URL"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(
    settings: dict[str, str], named: str
) -> None:
    environment = {f"HEDGEROW_{name.upper()}": value for name, value in settings.items()}
    with pytest.raises(OperatorError, match=named):
        check_login_settings(load_settings(environment)[0])
