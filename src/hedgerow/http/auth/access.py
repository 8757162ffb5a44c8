"""Access to /api, checked in one order for every endpoint: an acceptable media type, the key, the
project, access to the project, the scope, the rate limit. Objects and bodies are read only after.
"""

import time
from dataclasses import dataclass, replace

from starlette.requests import Request

from hedgerow.errors import (
    AppError,
    AuthenticationFailed,
    Forbidden,
    NotAcceptable,
    NotAuthenticated,
)
from hedgerow.flags.approvals.permit import build_break_glass, current_break_glass
from hedgerow.http.auth.personal_key import (
    NO_KEY_ACCESS,
    check_scope,
    find_cached_or_stored,
    find_caller,
    find_project,
)
from hedgerow.http.auth.sdk_key import SCOPE as SDK_SCOPE
from hedgerow.http.auth.sdk_key import admit_project, find_sdk_project
from hedgerow.http.auth.session_cookie import check_origin, read_session_token
from hedgerow.http.call import Call, CallContext, ProjectCall, PublicCall, SdkCall
from hedgerow.http.payload.body import FormFields
from hedgerow.http.server.headers import read_bearer, read_header
from hedgerow.http.server.trace import get_trace
from hedgerow.lib.eager import ensure_task
from hedgerow.lib.workers.sender import current_sender
from hedgerow.people.model import RECENT_LOGIN_TIME, LoginNotRecent
from hedgerow.projects.caller import Caller
from hedgerow.projects.model import name_sender
from hedgerow.projects.rate_limit import RateLimiter

# Who may break the glass may also change the settings of the project.
BREAK_GLASS_SCOPE = "project:write"
BREAK_GLASS_HEADER = b"x-break-glass"
# An anonymous client cannot make the service parse a larger body in search of a key.
KEY_IN_BODY_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The key that an endpoint requires. The OpenAPI document shows `scope`."""

    scope: str
    is_in_project: bool
    # Whether a caller that is limited to some projects may call a path without a project: a key, or
    # a person who is not an owner.
    allows_restricted_keys: bool = True
    # The path concerns what belongs to the person, so that it needs no role.
    is_personal: bool = False
    # Only for people who have logged in.
    needs_session: bool = False
    # A person must have logged in a few minutes ago. Keys are exempt.
    needs_recent_login: bool = False
    allows_secret_key: bool = False
    # A media type that the endpoint can return instead of JSON.
    also: str = ""


def in_project(scope: str, *, also: str = "") -> Access:
    """For paths with {project_id}: the endpoint receives a ProjectCall."""
    return Access(scope=scope, is_in_project=True, also=also)


def anywhere(scope: str, *, restricted_keys: bool = False, is_personal: bool = False) -> Access:
    """For paths without a project: the endpoint receives a Call. Scope "" accepts every key."""
    return Access(
        scope=scope,
        is_in_project=False,
        allows_restricted_keys=restricted_keys,
        is_personal=is_personal,
    )


def recently(access: Access) -> Access:
    """For changes of keys, members and secrets: a session must be a few minutes old."""
    return replace(access, needs_recent_login=True)


def by_session(access: Access) -> Access:
    """For changes of how a person logs in: no key can make them."""
    return replace(access, needs_session=True)


def for_sdks(*, also: str = "") -> Access:
    """For paths with {project_id} that server-side SDKs call: the endpoint receives an SdkCall."""
    return Access(scope=SDK_SCOPE, is_in_project=True, allows_secret_key=True, also=also)


class Authenticator:
    """Turns requests into calls, or raises the error that the client gets."""

    def __init__(
        self, context: CallContext, throttle: RateLimiter, sdk_throttle: RateLimiter
    ) -> None:
        self._context = context
        self._throttle = throttle
        self._sdk_throttle = sdk_throttle

    async def authorize(self, request: Request, access: Access | None) -> PublicCall:
        """Return the kind of call that `access` promises; a PublicCall for None."""
        if access is None:
            return PublicCall(request=request, context=self._context)
        check_accept(request, access.also)
        if access.allows_secret_key:
            return await self._authorize_sdk(request)
        caller = await self._authenticate(request)
        trace = get_trace(request.scope)
        trace.key_id = caller.id
        call: Call
        if access.is_in_project:
            project = await find_project(
                request.path_params["project_id"], caller, self._context.directory
            )
            trace.project_id = project.id
            sender = name_sender(project.id)
            call = ProjectCall(
                request=request, context=self._context, caller=caller, project=project
            )
            check_scope(caller, access.scope, project)
        else:
            _check_restrictions(caller, access)
            sender = f"key {caller.id}"
            call = Call(request=request, context=self._context, caller=caller)
            check_scope(caller, access.scope)
        self._check_session(caller, access)
        self._throttle.admit(caller.id, time.monotonic())
        # A context variable that is set without a task would stay set for the whole connection.
        await ensure_task()
        current_sender.set(sender)
        _read_break_glass(call)
        trace.mark("access")
        return call

    async def _authorize_sdk(self, request: Request) -> SdkCall:
        trace = get_trace(request.scope)
        project = await find_sdk_project(
            request.scope, self._context.directory, trace, request.path_params["project_id"]
        )
        admit_project(self._sdk_throttle, project)
        trace.mark("access")
        return SdkCall(request=request, context=self._context, project=project)

    async def _authenticate(self, request: Request) -> Caller:
        """Use the first key present: header, body, query string. Without one, the session."""
        value, place = read_bearer(request.scope) or None, "Authorization header"
        if value is None:
            value, place = await self._read_key_in_body(request), "body"
        if value is None:
            value, place = request.query_params.get("personal_api_key"), "query string"
        if not value:
            return await self._authenticate_session(request)
        caller = await find_caller(value, self._context.directory)
        if caller is None:
            raise AuthenticationFailed(f"Personal API key found in request {place} is invalid.")
        return caller

    async def _authenticate_session(self, request: Request) -> Caller:
        token = read_session_token(request.scope)
        if not token:
            raise NotAuthenticated
        directory = self._context.directory
        caller = await find_cached_or_stored(
            token, directory.find_session, directory.find_new_session
        )
        if caller is None:
            raise AuthenticationFailed("Your session has ended. Log in again.")
        check_origin(request.scope, self._context.origins)
        return caller

    def _check_session(self, caller: Caller, access: Access) -> None:
        session = caller.session
        if session is None:
            if access.needs_session:
                raise Forbidden(NO_KEY_ACCESS)
        elif access.needs_recent_login:
            age = self._context.clock() - session.created_at
            if age > RECENT_LOGIN_TIME:
                raise LoginNotRecent

    async def _read_key_in_body(self, request: Request) -> str | None:
        if request.method in ("GET", "OPTIONS"):
            return None
        bodies = self._context.bodies
        try:
            if await bodies.size(request) > KEY_IN_BODY_BYTES:
                return None
            body = await bodies.value(request)
        except AppError as error:
            if error.status in (408, 413):
                raise
            return None  # an unreadable body carries no key; the endpoint reports the body itself
        value = body.get("personal_api_key") if isinstance(body, dict) else None
        if isinstance(body, FormFields) and value:
            value = value[-1]
        return value if isinstance(value, str) else None


def _read_break_glass(call: Call) -> None:
    """Let an administrator change flags without approvals, for the time of this call. Across
    projects, only an owner can."""
    reason = read_header(call.request.scope, BREAK_GLASS_HEADER)
    if not reason or call.request.method in ("GET", "HEAD"):
        return
    project = call.project if isinstance(call, ProjectCall) else None
    check_scope(call.caller, BREAK_GLASS_SCOPE, project)
    if project is None and not call.caller.user.is_owner:
        raise Forbidden("Only an owner of the organization can break the glass across projects.")
    reason = reason.encode("latin-1").decode("utf-8", "replace")
    current_break_glass.set(build_break_glass(reason, call.actor, attr="X-Break-Glass"))


def _check_restrictions(caller: Caller, access: Access) -> None:
    """Raise Forbidden if a path without a project is not open to this caller."""
    if access.allows_restricted_keys:
        return
    if caller.project_ids:
        raise Forbidden(
            "API keys with scoped projects are only supported on project-based endpoints."
        )
    if not (caller.user.is_owner or access.is_personal):
        raise Forbidden("Only owners of the organization may do this.")


def accepts(request: Request, media_type: str) -> bool:
    """Whether the Accept header names exactly this type."""
    accept = request.headers.get("accept", "")
    return media_type in (each.partition(";")[0].strip().lower() for each in accept.split(","))


def check_accept(request: Request, also: str) -> None:
    accept = request.headers.get("accept", "*/*")
    if also and (accepts(request, also) or accepts(request, also.partition("/")[0] + "/*")):
        return
    if "javascript" in accept and request.scope["path"].endswith("/frontend/"):
        return
    for choice in accept.split(","):
        essence = choice.partition(";")[0].strip().lower()
        if essence in ("", "*/*", "application/*", "application/json"):
            return
    raise NotAcceptable
