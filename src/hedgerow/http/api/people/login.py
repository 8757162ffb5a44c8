"""Log in and out. These endpoints need no key; each checks that our own page sends the request."""

from typing import Annotated

import msgspec
from pydantic import StringConstraints
from starlette.responses import Response

from hedgerow.http.auth.personal_key import find_cached_or_stored
from hedgerow.http.auth.session_cookie import (
    check_origin,
    clear_session_cookie,
    read_session_token,
    set_session_cookie,
)
from hedgerow.http.call import PublicCall
from hedgerow.http.endpoint import endpoint
from hedgerow.http.payload.fields import Fields, Text
from hedgerow.http.server.headers import read_header
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.people.logins import LoginRequest, Logins
from hedgerow.people.members import Members
from hedgerow.people.model import MAX_EMAIL_CHARS, MAX_NAME_CHARS, Browser, IssuedSession
from hedgerow.people.passwords import MAX_CHARS
from hedgerow.projects.caller import Caller
from hedgerow.projects.directory import Directory

# Spaces at the ends of a password count.
Password = Annotated[str, StringConstraints(strip_whitespace=False), Text(MAX_CHARS)]
Email = Annotated[str, Text(MAX_EMAIL_CHARS)]
FirstName = Annotated[str, Text(MAX_NAME_CHARS)]
LinkToken = Annotated[str, Text(2000)]


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
    return Browser(address=client.text, group=client.group, user_agent=agent)


def check_own_page(call: PublicCall) -> None:
    check_origin(call.request.scope, call.context.origins)


def respond_with_session(call: PublicCall, issued: IssuedSession, status: int = 200) -> Response:
    response = JsonResponse(Success(), status_code=status)
    set_session_cookie(response, issued.value, call.request.scope, call.context.origins)
    return response


class LoginEndpoints:
    tag = "Login"

    def __init__(self, directory: Directory, logins: Logins, members: Members) -> None:
        self._directory = directory
        self._logins = logins
        self._members = members

    @endpoint("POST", "/api/login/", access=None, keys=(), response=Success, body=LoginBody)
    async def log_in(self, call: PublicCall) -> Response:
        """Log in with a password. The response sets the cookie of the session, and a session that
        the browser had ends. Log in again before you change keys, members or secrets."""
        check_own_page(call)
        body = await call.body(LoginBody)
        request = LoginRequest(email=body.email, password=body.password, code=body.token)
        issued = await self._logins.log_in(
            request, read_browser(call), await self._find_replaced(call), call.now
        )
        return respond_with_session(call, issued)

    @endpoint("POST", "/api/logout/", access=None, keys=(), response=None, status=204)
    async def log_out(self, call: PublicCall) -> Response:
        """Log out: end the session and delete its cookie."""
        check_own_page(call)
        caller = await self._find_caller(call)
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
            user, read_browser(call), await self._find_replaced(call), call.now
        )
        return respond_with_session(call, issued)

    @endpoint("POST", "/api/reset/confirm/", access=None, keys=(), response=Success, body=ResetBody)
    async def reset_password(self, call: PublicCall) -> Response:
        """Choose a new password, with the token of a link. All sessions of the person end. Log in
        after it."""
        check_own_page(call)
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
        body = await call.body(SignupBody)
        user = await self._members.accept(
            read_token(body.token), body.first_name, body.password, call.now
        )
        issued = await self._logins.start_session(user, read_browser(call), None, call.now)
        return respond_with_session(call, issued, status=201)

    async def _find_caller(self, call: PublicCall) -> Caller | None:
        token = read_session_token(call.request.scope)
        if not token:
            return None
        return await find_cached_or_stored(
            token, self._directory.find_session, self._directory.find_new_session
        )

    async def _find_replaced(self, call: PublicCall) -> str | None:
        """Return the id of the session that the browser has."""
        caller = await self._find_caller(call)
        return caller.session.id if caller and caller.session else None
