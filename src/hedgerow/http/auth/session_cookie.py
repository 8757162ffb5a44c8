"""The cookie of a session, and the check that a request comes from our own pages.

Only `/api` sees the cookie, and only endpoints that need a key read it. Those that answer pages of
any site never do: a test names the modules that may import this one.
"""

from urllib.parse import urlsplit

from starlette.responses import Response
from starlette.types import Scope

from hedgerow.errors import Forbidden, NotAuthenticated
from hedgerow.http.server.headers import read_header
from hedgerow.http.server.proxies import Origins, is_loopback_host
from hedgerow.people.attempts import DEVICE_TIME
from hedgerow.people.model import SESSION_TIME, IssuedSession
from hedgerow.people.oidc.model import LOGIN_TIME

COOKIE = "hedgerow_session"
# Of a browser in which someone has logged in before; and of a login with a provider.
DEVICE_COOKIE = "hedgerow_device"
PENDING_COOKIE = "hedgerow_login"
PATH = "/api"
PENDING_PATH = "/api/login/oidc"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
# The browser itself, such as an address that a person enters, and our own pages.
_OWN_SITES = ("none", "same-origin")


def read_session_token(scope: Scope) -> str:
    """Return the token in the cookie, "" without. Two cookies of this name are refused: a page of a
    neighboring domain can add one, and would choose who the visitor is."""
    found = _read_cookies(scope, COOKIE)
    if len(found) > 1:
        raise NotAuthenticated("The request has several session cookies. Delete them, and log in.")
    return next(iter(found), "")


def read_login_cookie(scope: Scope, name: str) -> str:
    """Return the value of another cookie, "" without one or with several."""
    found = _read_cookies(scope, name)
    return next(iter(found)) if len(found) == 1 else ""


def _read_cookies(scope: Scope, name: str) -> set[str]:
    prefix = f"{name}="
    # Browsers send one header; HTTP/2 proxies may have split it.
    pairs = read_header(scope, b"cookie").replace(",", ";").split(";")
    return {each.strip().removeprefix(prefix) for each in pairs if each.strip().startswith(prefix)}


def check_origin(scope: Scope, origins: Origins) -> None:
    """Raise Forbidden if a page of another site may have caused the request. The cookie decides who
    calls, so unsafe methods must come from our own pages. `Sec-Fetch-Site` says so; browsers that
    omit it send the Origin."""
    site = read_header(scope, b"sec-fetch-site")
    if scope["method"] in SAFE_METHODS:
        if not site or site in _OWN_SITES:
            return
    elif site == "same-origin" or (not site and _has_own_origin(scope, origins)):
        return
    raise Forbidden(
        "CSRF Failed: the request does not come from a page of this service. Programs send a "
        "personal API key, or the header Origin with the address of this service."
    )


def _has_own_origin(scope: Scope, origins: Origins) -> bool:
    origin = read_header(scope, b"origin").lower()
    if not origin:
        return False
    if origin == origins.base_url(scope).lower():
        return True
    # A browser decides about the Host, not the page.
    host = read_header(scope, b"host").lower()
    parts = urlsplit(origin)
    return bool(host) and parts.scheme in ("http", "https") and parts.netloc == host


def set_session_cookie(
    response: Response, issued: IssuedSession, scope: Scope, origins: Origins
) -> None:
    """Set the cookie of a session, and the one that the browser keeps when it is over."""
    values = ((COOKIE, issued.value, SESSION_TIME), (DEVICE_COOKIE, issued.device, DEVICE_TIME))
    for name, value, time in values:
        response.set_cookie(
            name,
            value,
            max_age=round(time.total_seconds()),
            path=PATH,
            secure=_needs_tls(scope, origins),
            httponly=True,
            samesite="strict",
        )


def set_pending_cookie(response: Response, value: str, scope: Scope, origins: Origins) -> None:
    """Set the cookie of a login with a provider, which ends with a request from its site; an empty
    value deletes it."""
    response.set_cookie(
        PENDING_COOKIE,
        value,
        max_age=round(LOGIN_TIME.total_seconds()) if value else 0,
        path=PENDING_PATH,
        secure=_needs_tls(scope, origins),
        httponly=True,
        samesite="lax",
    )


def clear_session_cookie(response: Response, scope: Scope, origins: Origins) -> None:
    response.delete_cookie(
        COOKIE, path=PATH, secure=_needs_tls(scope, origins), httponly=True, samesite="strict"
    )


def _needs_tls(scope: Scope, origins: Origins) -> bool:
    """Everywhere but on this machine: browsers do not send such a cookie over plain HTTP."""
    url = urlsplit(origins.base_url(scope))
    return not (url.scheme == "http" and is_loopback_host(url.hostname or ""))
