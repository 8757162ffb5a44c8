"""What several endpoints read off the headers of a request."""

from starlette.types import Scope

from hedgerow.http.origin import header


def bearer(scope: Scope) -> str:
    """The key in `Authorization: Bearer …`, "" when there is none."""
    scheme, _, value = header(scope, b"authorization").partition(" ")
    return value.strip() if scheme.lower() == "bearer" else ""


def has_answer(scope: Scope, etag: str) -> bool:
    """Whether the caller has this very answer. A proxy may have made its mark a weak one."""
    marks = header(scope, b"if-none-match").split(",")
    return any(mark.strip().removeprefix("W/") in (etag, "*") for mark in marks)
