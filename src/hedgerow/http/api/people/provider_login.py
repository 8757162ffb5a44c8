"""Log in with an OpenID Connect provider. A browser opens both addresses as pages, so that errors
lead to the login page.
"""

from typing import TYPE_CHECKING

import structlog
from starlette.responses import RedirectResponse, Response

from hedgerow.errors import NotFound
from hedgerow.http.api.people.login import check_own_page, find_replaced, read_browser
from hedgerow.http.auth.session_cookie import (
    PENDING_COOKIE,
    read_login_cookie,
    set_pending_cookie,
    set_session_cookie,
)
from hedgerow.http.call import PublicCall
from hedgerow.http.endpoint import endpoint
from hedgerow.http.parameters import Parameter
from hedgerow.people.oidc.model import LoginRefused

if TYPE_CHECKING:
    from hedgerow.people.oidc.login import ProviderLogins

PROVIDER_PATH = "/api/login/oidc/"
# The console remembers by it that this browser has a session.
LOGGED_IN = "#logged-in"
# The address has a code, and belongs to one person.
HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
MAX_ANSWER_CHARS = 4000

_log = structlog.get_logger("hedgerow.login")


class ProviderLoginEndpoints:
    tag = "Login"

    def __init__(self, logins: "ProviderLogins | None") -> None:
        self._logins = logins

    @endpoint(
        "GET",
        PROVIDER_PATH,
        access=None,
        keys=(),
        query=[Parameter("next", "The page to show after the login. It begins with /.")],
        status=303,
    )
    async def begin_provider_login(self, call: PublicCall) -> Response:
        """Begin a login with the OpenID Connect provider: go to its page."""
        logins = self._get_logins()
        check_own_page(call)
        next = call.query_param("next") or "/"
        try:
            begun = await logins.begin(next, await find_replaced(call), call.now)
        except LoginRefused as error:
            return _show_refusal(call, error)
        response = RedirectResponse(begun.url, status_code=303, headers=HEADERS)
        set_pending_cookie(response, begun.cookie, call.request.scope, call.context.origins)
        return response

    @endpoint(
        "GET",
        f"{PROVIDER_PATH}callback/",
        access=None,
        keys=(),
        query=[
            Parameter("code", "A code of the provider, for its token endpoint."),
            Parameter("state", "The value with which the login began."),
            Parameter("error", "Why the provider has no code."),
            Parameter("iss", "The issuer."),
        ],
        status=303,
    )
    async def end_provider_login(self, call: PublicCall) -> Response:
        """End a login: the provider sends the browser here. The response sets the cookie of a
        session and shows the console, or the login page with the reason as `error`."""
        logins = self._get_logins()
        scope, origins = call.request.scope, call.context.origins
        cookie = read_login_cookie(scope, PENDING_COOKIE)
        names = ("code", "state", "error", "iss")
        values = ((name, call.query_param(name)) for name in names)
        answer = {name: value[:MAX_ANSWER_CHARS] for name, value in values if value is not None}
        try:
            ended = await logins.end(answer, cookie, read_browser(call), call.now)
        except LoginRefused as error:
            return _show_refusal(call, error)
        url = ended.next + LOGGED_IN
        response = RedirectResponse(url, status_code=303, headers=HEADERS)
        set_session_cookie(response, ended.issued, scope, origins)
        set_pending_cookie(response, "", scope, origins)
        return response

    def _get_logins(self) -> "ProviderLogins":
        if self._logins is None:
            raise NotFound("No OpenID Connect provider is set. Set HEDGEROW_OIDC_ISSUER.")
        return self._logins


def _show_refusal(call: PublicCall, error: LoginRefused) -> Response:
    if error.code == "provider_failed":
        _log.warning("login with the provider failed", reason=str(error))
    else:
        _log.info("login with the provider was refused", code=error.code, reason=str(error))
    response = RedirectResponse(f"/login?error={error.code}", status_code=303, headers=HEADERS)
    set_pending_cookie(response, "", call.request.scope, call.context.origins)
    return response
