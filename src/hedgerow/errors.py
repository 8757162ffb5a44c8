"""The error family. A room raises one of these; the HTTP edge alone renders it, the CLI prints it.

`detail` is for the caller to read. What only we should see goes to the log, never in here.
"""

from typing import ClassVar


class AppError(Exception):
    """What every foreseen failure is. A subclass names its status, type and code: there is no
    default.
    """

    status: ClassVar[int]
    type: ClassVar[str]
    code: str
    default_detail: ClassVar[str]

    def __init__(
        self,
        detail: str | None = None,
        *,
        attr: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.detail = detail or self.default_detail
        self.attr = attr
        self.code = code or self.code
        self.headers = headers or {}
        super().__init__(self.detail)


class Invalid(AppError):
    """A value in the request breaks a rule; `attr` names the field."""

    status, type, code = 400, "validation_error", "invalid_input"
    default_detail = "Invalid input."


class Malformed(AppError):
    """The body cannot be read at all."""

    status, type, code = 400, "invalid_request", "parse_error"
    default_detail = "Malformed request."


class NotAuthenticated(AppError):
    """No key came with the request."""

    status, type, code = 401, "authentication_error", "not_authenticated"
    default_detail = "Authentication credentials were not provided."

    def __init__(self, detail: str | None = None) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": "Bearer"})


class AuthenticationFailed(NotAuthenticated):
    """A key came and is not good."""

    status, type, code = 401, "authentication_error", "authentication_failed"
    default_detail = "Incorrect authentication credentials."


class Forbidden(AppError):
    """The key is good, and may not do this."""

    status, type, code = 403, "authentication_error", "permission_denied"
    default_detail = "You do not have permission to perform this action."


class NotFound(AppError):
    """There is no such thing, or the caller may not know of it."""

    status, type, code = 404, "invalid_request", "not_found"
    default_detail = "Not found."


class MethodNotAllowed(AppError):
    """The path exists and does not take this method."""

    status, type, code = 405, "invalid_request", "method_not_allowed"
    default_detail = "Method not allowed."

    def __init__(self, method: str, allowed: list[str]) -> None:
        super().__init__(f'Method "{method}" not allowed.', headers={"Allow": ", ".join(allowed)})


class NotAcceptable(AppError):
    """We have no representation that the Accept header takes."""

    status, type, code = 406, "invalid_request", "not_acceptable"
    default_detail = "Could not satisfy the request Accept header."


class TooSlow(AppError):
    """The client did not finish sending its request in time."""

    status, type, code = 408, "invalid_request", "request_timeout"
    default_detail = "The request body did not arrive in time."


class Conflict(AppError):
    """Somebody else changed the thing first, or the name is taken."""

    status, type, code = 409, "invalid_request", "conflict"
    default_detail = "The request conflicts with the present state."


class TooLarge(AppError):
    """The body is over the limit."""

    status, type, code = 413, "invalid_request", "request_too_large"
    default_detail = "Request body is too large."


class UnsupportedMediaType(AppError):
    """The body is of a kind that this path does not read."""

    status, type, code = 415, "invalid_request", "unsupported_media_type"
    default_detail = "Unsupported media type in request."


class HeadersTooLarge(AppError):
    """The headers are over the limit."""

    status, type, code = 431, "invalid_request", "headers_too_large"
    default_detail = "Request headers are larger than 64 KiB."


class Throttled(AppError):
    """The key has used up its allowance for now."""

    status, type, code = 429, "throttled_error", "throttled"
    default_detail = "Request was throttled."

    def __init__(self, wait_s: int) -> None:
        super().__init__(
            f"Request was throttled. Expected available in {wait_s} "
            f"second{'' if wait_s == 1 else 's'}.",
            headers={"Retry-After": str(wait_s)},
        )


class Unexpected(AppError):
    """A defect of ours. The log has the cause; the caller has only the request id."""

    status, type, code = 500, "server_error", "error"
    default_detail = "A server error occurred."


class Unavailable(AppError):
    """Something we depend on is away for now; trying again later makes sense."""

    status, type, code = 503, "server_error", "service_unavailable"
    default_detail = "The service is not available at the moment."

    def __init__(self, detail: str | None = None, *, retry_after_s: int = 1) -> None:
        super().__init__(detail, headers={"Retry-After": str(retry_after_s)})


class Unready(Exception):
    """The installation cannot start as it is; the message says what to do about it."""
