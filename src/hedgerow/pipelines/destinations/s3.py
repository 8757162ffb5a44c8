"""A bucket of S3-compatible storage, over the guarded HTTP client: put, read and list objects.

Requests are signed with Amazon's signer. A full client library would open its own connections and
search this machine for credentials.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, partial
from hashlib import sha256
from typing import Any
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

from hedgerow.errors import Invalid
from hedgerow.lib.clock import Clock
from hedgerow.lib.optional_packages import import_package
from hedgerow.plugin.component import SettingField, SettingType
from hedgerow.plugin.delivery import RunInThread, run_inline
from hedgerow.plugin.http import HttpClient, Request, StreamedResponse, TransportError

PUT_TIMEOUT_S = 50.0
READ_TIMEOUT_S = 30.0
PAGE_SIZE = 500
MAX_RESPONSE_BYTES = 4 * 1024 * 1024
MAX_ERROR_BYTES = 16 * 1024
# Some storage ignores the page size, but none lists more than S3 does.
MAX_LISTED_OBJECTS = 1000

S3_ACCESS_SETTINGS = (
    SettingField(key="endpoint", name="Endpoint", hint="Empty for AWS.", default=""),
    SettingField(key="region", name="Region", default="us-east-1"),
    SettingField(key="access_key_id", name="Access key id", secret=True),
    SettingField(key="secret_access_key", name="Secret access key", secret=True),
    SettingField(
        key="path_style",
        name="Bucket in the path",
        type=SettingType.BOOLEAN,
        default=True,
        hint="Off for storage that wants the bucket as part of the host.",
    ),
)

# What to do, by error code.
ADVICE = {
    "AccessDenied": "The keys may not do this in the bucket: check their policy.",
    "AuthorizationHeaderMalformed": "Check the region.",
    "InvalidAccessKeyId": "Check the access key id.",
    "NoSuchBucket": "Make the bucket, or check its name.",
    "PermanentRedirect": "Check the region and the endpoint.",
    "RequestTimeTooSkewed": "Check the clock of this machine.",
    "SignatureDoesNotMatch": "Check the secret access key and the region.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Access:
    """Without an `endpoint` requests go to AWS. Without keys they are not signed, as for public
    buckets. Without `path_style` the bucket is part of the host name."""

    endpoint: str
    region: str
    access_key_id: str
    secret_access_key: str
    path_style: bool = True

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> "S3Access":
        """Read the decrypted values of S3_ACCESS_SETTINGS."""
        return cls(
            endpoint=settings["endpoint"] or "",
            region=settings["region"],
            access_key_id=settings["access_key_id"] or "",
            secret_access_key=settings["secret_access_key"] or "",
            path_style=settings["path_style"],
        )


def check_access(config: Mapping[str, Any]) -> None:
    """Raise Invalid for the first unusable value of S3_ACCESS_SETTINGS."""
    endpoint = config.get("endpoint") or ""
    try:
        address = urlsplit(endpoint)
        _ = address.port
        is_usable = not endpoint or (
            address.scheme in ("http", "https")
            and bool(address.hostname)
            and not (address.query or address.fragment or address.username)
        )
    except ValueError:
        is_usable = False
    if not is_usable:
        raise Invalid(
            "A URL such as https://s3.example.com is required. Leave it empty for AWS.",
            attr="config__endpoint",
        )
    region = config.get("region") or "us-east-1"
    if not (region.isascii() and region.replace("-", "").isalnum() and len(region) < 64):
        raise Invalid("A region such as eu-central-1 is required.", attr="config__region")
    for one, other in (
        ("access_key_id", "secret_access_key"),
        ("secret_access_key", "access_key_id"),
    ):
        if config.get(other) and not config.get(one):
            raise Invalid("Both keys are required, or neither.", attr=f"config__{one}")


def check_bucket(name: str, attr: str) -> None:
    """Raise Invalid unless this is a bucket name."""
    rest = name.replace("-", "").replace(".", "").replace("_", "")
    if not (3 <= len(name) <= 63 and rest.isascii() and rest.isalnum() and ".." not in name):
        raise Invalid("A bucket name of 3 to 63 letters, digits, - and . is required.", attr=attr)


class S3Error(TransportError):
    """The storage responded with an error."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.code = code
        advice = ADVICE.get(code, "")
        detail = " ".join(part for part in (f"{code}:" if code else "", message, advice) if part)
        super().__init__(f"HTTP {status}: {detail}" if detail else f"HTTP {status}")


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Object:
    key: str
    size: int
    etag: str


class Bucket:
    """Every method raises TransportError without a response, and S3Error, a subclass, for an error
    response."""

    def __init__(
        self,
        access: S3Access,
        name: str,
        http: HttpClient,
        clock: Clock,
        run_in_thread: RunInThread = run_inline,
    ) -> None:
        self._access = access
        self._name = name
        self._http = http
        self._clock = clock
        self._run_in_thread = run_in_thread

    async def put(self, key: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Store an object atomically."""
        request = await self._build_request("PUT", key, headers=headers, body=body)
        response = await self._http.send(replace(request, timeout_s=PUT_TIMEOUT_S))
        if response.status != 200:
            raise _build_error(response.status, response.body)

    @asynccontextmanager
    async def read(
        self, key: str, start: int = 0, etag: str = ""
    ) -> AsyncIterator[StreamedResponse]:
        """Read an object from a byte on, in chunks. With an `etag` it must not have changed."""
        headers = {"range": f"bytes={start}-"} if start else {}
        if etag:
            headers["if-match"] = etag
        request = await self._build_request("GET", key, headers=headers)
        async with self._http.stream(replace(request, timeout_s=READ_TIMEOUT_S)) as stream:
            if stream.status not in (200, 206):
                raise _build_error(stream.status, await _read_bounded(stream, MAX_ERROR_BYTES))
            # Not every storage respects the Range and If-Match headers, so check the response.
            detail = stream.headers.get("content-range", "bytes 0-")
            if not detail.startswith(f"bytes {start}-"):
                raise TransportError(
                    "The storage returned another part of the object than requested."
                )
            if etag and stream.headers.get("etag", "").strip('"') != etag.strip('"'):
                raise TransportError("The object has changed since it was listed.")
            yield stream

    async def fetch_listing(self, prefix: str, after: str = "", token: str = "") -> bytes:
        """Return a page of the objects with a key prefix, ordered by key, as XML: from behind
        `after` on, or the page of a token. `parse_listing` parses it."""
        parameters = {"list-type": "2", "max-keys": str(PAGE_SIZE), "prefix": prefix}
        if token:
            parameters["continuation-token"] = token
        elif after:
            parameters["start-after"] = after
        return await self._get(parameters)

    async def _get(self, parameters: Mapping[str, str]) -> bytes:
        query = "&".join(
            f"{name}={quote(parameters[name], safe='-_.~')}" for name in sorted(parameters)
        )
        request = await self._build_request("GET", "", query)
        async with self._http.stream(replace(request, timeout_s=READ_TIMEOUT_S)) as stream:
            if stream.status != 200:
                raise _build_error(stream.status, await _read_bounded(stream, MAX_ERROR_BYTES))
            return await _read_bounded(stream, MAX_RESPONSE_BYTES)

    async def _build_request(
        self,
        method: str,
        key: str,
        query: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Request:
        # Hashing a large body takes long, and so does importing the signer.
        work = partial(self._request, method, key, query, headers or {}, body)
        return await self._run_in_thread(work)

    def _request(
        self, method: str, key: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> Request:
        access = self._access
        endpoint = urlsplit(access.endpoint or f"https://s3.{access.region}.amazonaws.com")
        path = endpoint.path.rstrip("/") + "/" + quote(key, safe="/-_.~")
        host = endpoint.netloc
        if access.path_style:
            path = endpoint.path.rstrip("/") + f"/{self._name}/" + quote(key, safe="/-_.~")
        else:
            host = f"{self._name}.{host}"
        target = f"{path}?{query}" if query else path
        request = Request(
            method=method,
            url=f"{endpoint.scheme}://{host}{target}",
            headers={"host": host, **headers},
            body=body,
        )
        return (
            sign_request(request, target, access, self._clock())
            if access.access_key_id
            else request
        )


@cache
def _load_signer() -> tuple[Any, Any]:
    # Loaded on first use, because it is slow.
    return import_package("awscrt.auth"), import_package("awscrt.http")


def sign_request(request: Request, target: str, access: S3Access, now: datetime) -> Request:
    """Sign a request with AWS Signature Version 4, over its headers and the hash of its body."""
    auth, http = _load_signer()
    config = auth.AwsSigningConfig(
        algorithm=auth.AwsSigningAlgorithm.V4,
        signature_type=auth.AwsSignatureType.HTTP_REQUEST_HEADERS,
        credentials_provider=auth.AwsCredentialsProvider.new_static(
            access.access_key_id, access.secret_access_key
        ),
        region=access.region,
        service="s3",
        date=now,
        # S3 signs the path as it is sent.
        use_double_uri_encode=False,
        should_normalize_uri_path=False,
        signed_body_value=sha256(request.body).hexdigest(),
        signed_body_header_type=auth.AwsSignedBodyHeaderType.X_AMZ_CONTENT_SHA_256,
    )
    parameters = http.HttpRequest(
        request.method, target, http.HttpHeaders(list(request.headers.items()))
    )
    headers = auth.aws_sign_request(parameters, config).result().headers
    return replace(request, headers={name.lower(): value for name, value in headers})


async def _read_bounded(stream: StreamedResponse, limit: int) -> bytes:
    body = bytearray()
    async for part in stream.chunks:
        body += part
        if len(body) > limit:
            raise TransportError("The response is too long.")
    return bytes(body)


def _build_error(status: int, body: bytes) -> S3Error:
    try:
        detail = _parse_xml(body)
    except TransportError:
        return S3Error(status, "", "")
    return S3Error(status, _find_text(detail, "Code"), _find_text(detail, "Message"))


def parse_listing(body: bytes) -> tuple[list[S3Object], str | None]:
    """Return the objects of a page, and the token of the next page. Of untrusted storage, call it
    in a worker process."""
    tree = _parse_xml(body)
    try:
        found = [
            S3Object(
                key=_find_text(each, "Key"),
                size=int(_find_text(each, "Size")),
                etag=_find_text(each, "ETag"),
            )
            for each in tree.iterfind("{*}Contents")
        ]
    except ValueError:
        raise TransportError("The response is not a list of objects.") from None
    if len(found) > MAX_LISTED_OBJECTS:
        raise TransportError(f"The storage listed more than {MAX_LISTED_OBJECTS} objects at once.")
    return found, _find_text(tree, "NextContinuationToken") or None


def _parse_xml(body: bytes) -> ElementTree.Element:
    try:
        # The size is bounded, and without declarations there are no entities to expand.
        if b"<!" in body:
            raise TransportError("The response is XML with declarations, which S3 does not send.")
        return ElementTree.fromstring(body)  # noqa: S314
    except ElementTree.ParseError:
        raise TransportError("The response is not XML.") from None


def _find_text(tree: ElementTree.Element, name: str) -> str:
    return tree.findtext(f"{{*}}{name}") or ""
