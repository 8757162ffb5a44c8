"""The error family. Domain packages raise these errors; the HTTP layer renders them and the CLI
prints them.

`detail` is shown to the caller. Information for operators only belongs in the log.
"""

from typing import Any, ClassVar


class AppError(Exception):
    """The base of all expected failures. Each subclass defines its status, type and code."""

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
        # Further fields of the response.
        self.extra: dict[str, Any] = {}
        super().__init__(self.detail)

    @property
    def is_server_error(self) -> bool:
        """Whether the request was valid: it may succeed later."""
        return self.status >= 500


class Invalid(AppError):
    """A value in the request is not valid. `attr` names the field."""

    status, type, code = 400, "validation_error", "invalid_input"
    default_detail = "Invalid input."


class Malformed(AppError):
    """The body cannot be parsed."""

    status, type, code = 400, "invalid_request", "parse_error"
    default_detail = "Malformed request."


class NotAuthenticated(AppError):
    """The request has no key."""

    status, type, code = 401, "authentication_error", "not_authenticated"
    default_detail = "Authentication credentials were not provided."

    def __init__(self, detail: str | None = None) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": "Bearer"})


class AuthenticationFailed(NotAuthenticated):
    """The key of the request is not valid."""

    status, type, code = 401, "authentication_error", "authentication_failed"
    default_detail = "Incorrect authentication credentials."


class Forbidden(AppError):
    """The key is valid but does not permit this action."""

    status, type, code = 403, "authentication_error", "permission_denied"
    default_detail = "You do not have permission to perform this action."


class NotFound(AppError):
    """The object does not exist, or the caller may not see it."""

    status, type, code = 404, "invalid_request", "not_found"
    default_detail = "Not found."


class MethodNotAllowed(AppError):
    """The path exists but does not support this method."""

    status, type, code = 405, "invalid_request", "method_not_allowed"
    default_detail = "Method not allowed."

    def __init__(self, method: str, allowed: list[str]) -> None:
        super().__init__(f'Method "{method}" not allowed.', headers={"Allow": ", ".join(allowed)})


class NotAcceptable(AppError):
    """The Accept header allows no representation that the service has."""

    status, type, code = 406, "invalid_request", "not_acceptable"
    default_detail = "Could not satisfy the request Accept header."


class RequestTimeout(AppError):
    """The client did not finish sending its request in time."""

    status, type, code = 408, "invalid_request", "request_timeout"
    default_detail = "The request body did not arrive in time."


class Conflict(AppError):
    """The object was changed concurrently, or its name is taken."""

    status, type, code = 409, "invalid_request", "conflict"
    default_detail = "The request conflicts with the present state."


class TooLarge(AppError):
    """The body is over the limit."""

    status, type, code = 413, "invalid_request", "request_too_large"
    default_detail = "Request body is too large."


class UnsupportedMediaType(AppError):
    """The path does not accept this content type."""

    status, type, code = 415, "invalid_request", "unsupported_media_type"
    default_detail = "Unsupported media type in request."


class HeadersTooLarge(AppError):
    """The headers are over the limit."""

    status, type, code = 431, "invalid_request", "headers_too_large"
    default_detail = "Request headers are larger than 64 KiB."


class Throttled(AppError):
    """The rate limit of the key is exhausted, or the queries of a project must wait. `reason` says
    why, if it is not the rate."""

    status, type, code = 429, "throttled_error", "throttled"
    default_detail = "Request was throttled."

    def __init__(self, wait_s: int, reason: str = "") -> None:
        available = f"Expected available in {wait_s} second{'' if wait_s == 1 else 's'}."
        super().__init__(
            f"{reason or 'Request was throttled.'} {available}",
            headers={"Retry-After": str(wait_s)},
        )


class RateLimitExceeded(AppError):
    """A project or an address makes more public calls than its limit."""

    status, type, code = 429, "throttled_error", "rate_limit_exceeded"
    default_detail = "Rate limit exceeded."

    def __init__(self, excess: str, wait_s: int) -> None:
        super().__init__(
            f"Rate limit exceeded: {excess}. Try again in {wait_s} "
            f"second{'' if wait_s == 1 else 's'}.",
            headers={"Retry-After": str(wait_s)},
        )


class InternalError(AppError):
    """A defect. The log has the cause; the caller gets only the request id."""

    status, type, code = 500, "server_error", "error"
    default_detail = "A server error occurred."


class Unavailable(AppError):
    """A dependency is temporarily unavailable. The caller can retry later."""

    status, type, code = 503, "server_error", "service_unavailable"
    default_detail = "The service is not available at the moment."

    def __init__(self, detail: str | None = None, *, retry_after_s: int = 1) -> None:
        super().__init__(detail, headers={"Retry-After": str(retry_after_s)})


class OperatorError(Exception):
    """The installation cannot run as configured. The message tells the operator how to fix it."""
