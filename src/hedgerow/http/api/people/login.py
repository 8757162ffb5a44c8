"""Log in and out. These endpoints need no key; each checks that our own page sends the request."""

from typing import Annotated

import msgspec
import structlog
from pydantic import StringConstraints
from starlette.responses import Response

from hedgerow.errors import AppError, Invalid
from hedgerow.http.auth.personal_key import find_cached_or_stored
from hedgerow.http.auth.session_cookie import (
    DEVICE_COOKIE,
    check_origin,
    clear_session_cookie,
    read_login_cookie,
    read_session_token,
    set_session_cookie,
)
from hedgerow.http.call import PublicCall
from hedgerow.http.endpoint import endpoint
from hedgerow.http.payload.fields import Fields, Text
from hedgerow.http.server.headers import read_header
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib.text import truncate
from hedgerow.people.logins import LoginRequest, Logins
from hedgerow.people.mail.outbox import Outbox
from hedgerow.people.members import Members
from hedgerow.people.model import MAX_EMAIL_CHARS, MAX_NAME_CHARS, Browser, IssuedSession
from hedgerow.people.passwords import MAX_CHARS
from hedgerow.projects.caller import Caller

# Spaces at the ends of a password count.
Password = Annotated[str, StringConstraints(strip_whitespace=False), Text(MAX_CHARS)]
Email = Annotated[str, Text(MAX_EMAIL_CHARS)]
FirstName = Annotated[str, Text(MAX_NAME_CHARS)]
LinkToken = Annotated[str, Text(2000)]

_log = structlog.get_logger("hedgerow.login")


class LoginBody(Fields):
    """`token` is the code of an authenticator app, or a recovery code, for accounts that need
    one."""

    ignored_fields = frozenset()

    email: Email
    password: Password
    token: Annotated[str, Text(100, blank=True)] = ""


class SetupBody(Fields):
    """`token` is the setup link, or the part of it after `#setup=`."""

    ignored_fields = frozenset()

    token: LinkToken
    email: Email
    first_name: FirstName
    password: Password


class ResetBody(Fields):
    """`token` is the link, or the part of it after `#reset=`."""

    ignored_fields = frozenset()

    token: LinkToken
    password: Password


class ResetRequestBody(Fields):
    ignored_fields = frozenset()

    email: Email


class LoginLinkBody(Fields):
    """`token` is the link, or the part of it after `#login=`."""

    ignored_fields = frozenset()

    token: LinkToken


class SignupBody(Fields):
    """`token` is the link, or the part of it after `#invite=`."""

    ignored_fields = frozenset()

    token: LinkToken
    first_name: FirstName
    password: Password


def read_token(text: str) -> str:
    """Return the token of a link. The whole link is accepted too."""
    return text.rpartition("=")[2]


class Success(msgspec.Struct, kw_only=True):
    success: bool = True


def read_browser(call: PublicCall) -> Browser:
    scope = call.request.scope
    client = call.context.origins.client(scope)
    agent = read_header(scope, b"user-agent").encode("ascii", "replace").decode()
    return Browser(
        address=client.text,
        group=client.group,
        user_agent=agent,
        device=read_login_cookie(scope, DEVICE_COOKIE),
    )


def check_own_page(call: PublicCall) -> None:
    check_origin(call.request.scope, call.context.origins)


def respond_with_session(call: PublicCall, issued: IssuedSession, status: int = 200) -> Response:
    response = JsonResponse(Success(), status_code=status)
    set_session_cookie(response, issued, call.request.scope, call.context.origins)
    return response


class LoginEndpoints:
    tag = "Login"

    def __init__(
        self,
        logins: Logins,
        members: Members,
        outbox: Outbox,
        *,
        has_passwords: bool,
    ) -> None:
        self._logins = logins
        self._members = members
        self._outbox = outbox
        self._has_passwords = has_passwords

    @endpoint("POST", "/api/login/", access=None, keys=(), response=Success, body=LoginBody)
    async def log_in(self, call: PublicCall) -> Response:
        """Log in with a password. The response sets the cookie of the session, and a session that
        the browser had ends. Log in again before you change keys, members or secrets."""
        check_own_page(call)
        self._check_passwords()
        body = await call.body(LoginBody)
        request = LoginRequest(email=body.email, password=body.password, code=body.token)
        browser, replaced = read_browser(call), await find_replaced(call)
        try:
            issued = await self._logins.log_in(request, browser, replaced, call.now)
        except AppError as error:
            # A password that was typed into the wrong field is no account.
            account = truncate(body.email) if "@" in body.email else ""
            _log.warning("login refused", account=account, address=browser.address, code=error.code)
            raise
        return respond_with_session(call, issued)

    @endpoint(
        "POST", "/api/login/link/", access=None, keys=(), response=Success, body=LoginLinkBody
    )
    async def log_in_with_link(self, call: PublicCall) -> Response:
        """Log in with a link that the operator has printed with `hedgerow users login-link`."""
        check_own_page(call)
        body = await call.body(LoginLinkBody)
        issued = await self._logins.use_login_link(
            read_token(body.token), read_browser(call), await find_replaced(call), call.now
        )
        return respond_with_session(call, issued)

    @endpoint("POST", "/api/logout/", access=None, keys=(), response=None, status=204)
    async def log_out(self, call: PublicCall) -> Response:
        """Log out: end the session and delete its cookie."""
        check_own_page(call)
        caller = await _find_caller(call)
        if caller is not None and caller.session is not None:
            await self._logins.end_sessions(caller.user, [caller.session], caller.actor, call.now)
        response = no_content()
        clear_session_cookie(response, call.request.scope, call.context.origins)
        return response

    @endpoint("POST", "/api/setup/", access=None, keys=(), response=Success, body=SetupBody)
    async def set_up(self, call: PublicCall) -> Response:
        """Name the owner of a new installation, with the token of the setup link, and log in."""
        check_own_page(call)
        body = await call.body(SetupBody)
        user = await self._logins.use_link(
            read_token(body.token),
            "setup",
            body.password,
            email=body.email,
            first_name=body.first_name,
            now=call.now,
        )
        issued = await self._logins.start_session(
            user, read_browser(call), await find_replaced(call), call.now
        )
        return respond_with_session(call, issued)

    @endpoint(
        "POST",
        "/api/reset/",
        access=None,
        keys=(),
        response=None,
        status=204,
        body=ResetRequestBody,
    )
    async def request_reset(self, call: PublicCall) -> Response:
        """Send a mail with a link for a new password, which works once within an hour. The response
        does not tell whether there is such an account. It needs a mail server."""
        check_own_page(call)
        self._check_passwords()
        body = await call.body(ResetRequestBody)
        await self._outbox.request_reset(
            body.email, read_browser(call), self._logins.attempts, call.now
        )
        return no_content()

    @endpoint("POST", "/api/reset/confirm/", access=None, keys=(), response=Success, body=ResetBody)
    async def reset_password(self, call: PublicCall) -> Response:
        """Choose a new password, with the token of a link. All sessions of the person end. Log in
        after it."""
        check_own_page(call)
        self._check_passwords()
        body = await call.body(ResetBody)
        await self._logins.use_link(read_token(body.token), "reset", body.password, now=call.now)
        return JsonResponse(Success())

    @endpoint(
        "POST", "/api/signup/", access=None, keys=(), response=Success, status=201, body=SignupBody
    )
    async def sign_up(self, call: PublicCall) -> Response:
        """Join with the token of an invite, and log in. The invite fixes the email and the
        roles."""
        check_own_page(call)
        self._check_passwords()
        body = await call.body(SignupBody)
        user = await self._members.accept(
            read_token(body.token), body.first_name, body.password, call.now
        )
        issued = await self._logins.start_session(user, read_browser(call), None, call.now)
        return respond_with_session(call, issued, status=201)

    def _check_passwords(self) -> None:
        if not self._has_passwords:
            raise Invalid(
                "You can only log in with single sign-on. The operator can print a link: "
                "`hedgerow users login-link`.",
                code="sso_enforced",
            )


async def find_replaced(call: PublicCall) -> str | None:
    """Return the id of the session that the browser has."""
    caller = await _find_caller(call)
    return caller.session.id if caller and caller.session else None


async def _find_caller(call: PublicCall) -> Caller | None:
    token = read_session_token(call.request.scope)
    if not token:
        return None
    directory = call.context.directory
    return await find_cached_or_stored(token, directory.find_session, directory.find_new_session)
