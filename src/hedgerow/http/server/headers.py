"""Request headers that several endpoints read."""

from base64 import b64decode

from starlette.types import Scope


def read_header(scope: Scope, name: bytes) -> str:
    """Return all values of a header joined by commas; "" when it is absent."""
    values = [value for key, value in scope["headers"] if key == name]
    return b",".join(values).decode("latin-1") if values else ""


def read_encodings(scope: Scope) -> set[str]:
    """Return the encodings of a response that the client accepts."""
    named = (each.partition(";") for each in read_header(scope, b"accept-encoding").split(","))
    return {
        name.strip().lower()
        for name, _, quality in named
        if quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    }


def read_bearer(scope: Scope) -> str:
    """Return the key in `Authorization: Bearer …`; "" when there is none."""
    scheme, _, value = read_header(scope, b"authorization").partition(" ")
    return value.strip() if scheme.lower() == "bearer" else ""


def read_basic_user(scope: Scope) -> str:
    """Return the user name in `Authorization: Basic …`; "" when there is none."""
    scheme, _, value = read_header(scope, b"authorization").partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return b64decode(value.strip(), validate=True).decode().partition(":")[0]
    except ValueError:
        return ""


def etag_matches(scope: Scope, etag: str) -> bool:
    """Whether the client already has this response. A proxy may have weakened the ETag."""
    etags = read_header(scope, b"if-none-match").split(",")
    return any(each.strip().removeprefix("W/") in (etag, "*") for each in etags)
