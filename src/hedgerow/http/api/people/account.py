"""The own account: name, password, sessions and two-factor authentication."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from starlette.responses import Response

from hedgerow.errors import Invalid, NotFound
from hedgerow.http.api.people.login import FirstName, Password, Success
from hedgerow.http.api.people.users import UserDetail, render_detail
from hedgerow.http.auth.access import anywhere, by_session, recently
from hedgerow.http.call import Call
from hedgerow.http.endpoint import endpoint
from hedgerow.http.payload.fields import OMITTED, Fields, Text
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib.clock import format_iso
from hedgerow.people.logins import Logins
from hedgerow.people.members import Members
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import LoginSession

OWN_ACCOUNT = anywhere("user:read", restricted_keys=True, is_personal=True)
CHANGE_ACCOUNT = anywhere("user:write", is_personal=True)
# How a person logs in. A stolen session or key must not be enough to change it.
CHANGE_LOGIN = recently(by_session(CHANGE_ACCOUNT))
# For the documentation.
SESSION_ONLY = ("session",)


class AccountChange(Fields):
    """A new `password` needs the `current_password`, and ends all other sessions. Without a
    password so far, use a link for a new password."""

    ignored_fields = frozenset()

    first_name: FirstName = OMITTED
    password: Password = OMITTED
    current_password: Password = OMITTED


class CodeBody(Fields):
    ignored_fields = frozenset()

    token: Annotated[str, Text(100)]


class SessionItem(msgspec.Struct, kw_only=True):
    id: str
    created_at: str
    last_used_at: str
    expires_at: str
    address: str
    user_agent: str
    is_current: bool


class TwoFactorSecret(msgspec.Struct, kw_only=True):
    """`uri` is what a QR code for authenticator apps contains."""

    secret: str
    uri: str


class RecoveryCodes(msgspec.Struct, kw_only=True):
    """Each code works once, instead of a code of the authenticator. They are shown only here."""

    backup_codes: Sequence[str]
    success: bool = True


class TwoFactorStatus(msgspec.Struct, kw_only=True):
    is_enabled: bool
    backup_codes_left: int


def render_session(
    session: LoginSession, directory: Directory, current: LoginSession | None
) -> SessionItem:
    return SessionItem(
        id=session.id,
        created_at=format_iso(session.created_at),
        last_used_at=format_iso(directory.get_session_use(session)),
        expires_at=format_iso(session.expires_at),
        address=session.address,
        user_agent=session.user_agent,
        is_current=current is not None and current.id == session.id,
    )


class SessionEndpoints:
    tag = "Users"

    def __init__(self, directory: Directory, logins: Logins) -> None:
        self._directory = directory
        self._logins = logins

    @endpoint("GET", "/api/users/@me/sessions/", access=OWN_ACCOUNT, response=list[SessionItem])
    async def list_sessions(self, call: Call) -> Response:
        """List your open sessions, newest first."""
        current = call.caller.session
        found = self._directory.list_sessions(call.owner.id)
        return JsonResponse([render_session(each, self._directory, current) for each in found])

    @endpoint("DELETE", "/api/users/@me/sessions/", access=CHANGE_ACCOUNT, status=204)
    async def end_other_sessions(self, call: Call) -> Response:
        """End all your sessions but the one that sends the request."""
        current = call.caller.session
        found = self._directory.list_sessions(call.owner.id)
        others = [each for each in found if current is None or each.id != current.id]
        await self._logins.end_sessions(call.owner, others, call.actor, call.now)
        return no_content()

    @endpoint("DELETE", "/api/users/@me/sessions/{session_id}/", access=CHANGE_ACCOUNT, status=204)
    async def end_session(self, call: Call) -> Response:
        """End one of your sessions. All processes refuse it within a second."""
        id = call.path_param("session_id")
        found = [each for each in self._directory.list_sessions(call.owner.id) if each.id == id]
        if not found:
            raise NotFound
        await self._logins.end_sessions(call.owner, found, call.actor, call.now)
        return no_content()


class AccountEndpoints:
    tag = "Users"

    def __init__(self, directory: Directory, logins: Logins, members: Members) -> None:
        self._directory = directory
        self._logins = logins
        self._members = members

    @endpoint(
        "PATCH",
        "/api/users/@me/",
        access=by_session(CHANGE_ACCOUNT),
        keys=SESSION_ONLY,
        response=UserDetail,
        body=AccountChange,
    )
    async def change_me(self, call: Call) -> Response:
        """Change your name or your password."""
        body = await call.body(AccountChange)
        session = call.caller.session
        assert session is not None
        if body.password is not None:
            if body.current_password is None:
                raise Invalid("This field is required.", attr="current_password", code="required")
            await self._logins.change_password(
                call.owner,
                body.current_password,
                body.password,
                session,
                call.now,
            )
        if body.first_name is not None:
            await self._members.rename(call.owner, body.first_name, call.actor, call.now)
        user = self._directory.get_user(call.owner.id)
        return JsonResponse(render_detail(user, call.caller, self._directory))

    @endpoint(
        "GET",
        "/api/users/@me/two_factor_status/",
        access=by_session(OWN_ACCOUNT),
        keys=SESSION_ONLY,
        response=TwoFactorStatus,
    )
    async def retrieve_two_factor_status(self, call: Call) -> Response:
        """Tell whether two-factor authentication is enabled, and how many recovery codes are
        left."""
        left = await self._logins.count_recovery_codes(call.owner)
        return JsonResponse(TwoFactorStatus(is_enabled=call.owner.has_totp, backup_codes_left=left))

    @endpoint(
        "POST",
        "/api/users/@me/two_factor_start_setup/",
        access=CHANGE_LOGIN,
        keys=SESSION_ONLY,
        response=TwoFactorSecret,
    )
    async def start_two_factor_setup(self, call: Call) -> Response:
        """Create a secret for an authenticator app. It counts after you confirm a code of it."""
        issuer = call.owner.organization.name
        secret, uri = await self._logins.begin_totp(call.owner, issuer)
        return JsonResponse(TwoFactorSecret(secret=secret, uri=uri))

    @endpoint(
        "POST",
        "/api/users/@me/two_factor_validate/",
        access=CHANGE_LOGIN,
        keys=SESSION_ONLY,
        response=RecoveryCodes,
        body=CodeBody,
    )
    async def validate_two_factor(self, call: Call) -> Response:
        """Enable two-factor authentication, with a code of the new authenticator. Store the
        recovery codes: only this response contains them."""
        body = await call.body(CodeBody)
        codes = await self._logins.confirm_totp(call.owner, body.token, call.now)
        return JsonResponse(RecoveryCodes(backup_codes=codes))

    @endpoint(
        "POST",
        "/api/users/@me/two_factor_backup_codes/",
        access=CHANGE_LOGIN,
        keys=SESSION_ONLY,
        response=RecoveryCodes,
    )
    async def replace_backup_codes(self, call: Call) -> Response:
        """Replace the recovery codes. The old ones stop working."""
        codes = await self._logins.replace_recovery_codes(call.owner, call.actor, call.now)
        return JsonResponse(RecoveryCodes(backup_codes=codes))

    @endpoint(
        "POST",
        "/api/users/@me/two_factor_disable/",
        access=CHANGE_LOGIN,
        keys=SESSION_ONLY,
        response=Success,
    )
    async def disable_two_factor(self, call: Call) -> Response:
        """Disable two-factor authentication, and delete the secret and the recovery codes."""
        await self._logins.disable_totp(call.owner, call.actor, call.now)
        return JsonResponse(Success())
