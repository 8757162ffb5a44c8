"""A bucket of S3-compatible storage, over the guarded way out: put, read and list objects.

Amazon's own signer signs, requests and answers are ours: no client library opens connections of
its own here, and none looks for credentials on this machine.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib import import_module
from typing import Any
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

from hedgerow.errors import Invalid
from hedgerow.lib.clock import Clock
from hedgerow.pipelines.sending import CannotSend, Outbound, Request, Stream

PUT_S = 50.0
READ_S = 30.0
PAGE = 500
ANSWER_BYTES = 4 * 1024 * 1024
ERROR_BYTES = 16 * 1024

# What helps, by the code of an error.
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
    """Without an `endpoint` it is Amazon's. Without keys nothing is signed, as for what is public.
    Where not `path_style`, the bucket is part of the host."""

    endpoint: str
    region: str
    access_key_id: str
    secret_access_key: str
    path_style: bool = True

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "S3Access":
        """By the settings in fields.S3_ACCESS, in the clear."""
        return cls(
            endpoint=settings["endpoint"] or "",
            region=settings["region"],
            access_key_id=settings["access_key_id"] or "",
            secret_access_key=settings["secret_access_key"] or "",
            path_style=settings["path_style"],
        )


def check_access(config: Mapping[str, Any]) -> None:
    """Raise Invalid for the first of the settings in fields.S3_ACCESS that cannot be used."""
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
            "An address such as https://s3.example.com is required, or nothing for AWS.",
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
    """Raise Invalid for what is no bucket's name."""
    rest = name.replace("-", "").replace(".", "").replace("_", "")
    if not (3 <= len(name) <= 63 and rest.isascii() and rest.isalnum() and ".." not in name):
        raise Invalid("A bucket's name has 3 to 63 letters, digits, - and .", attr=attr)


class S3Refused(CannotSend):
    """The storage answered, and not with what was asked for."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.code = code
        advice = ADVICE.get(code, "")
        told = " ".join(part for part in (f"{code}:" if code else "", message, advice) if part)
        super().__init__(f"HTTP {status}: {told}" if told else f"HTTP {status}")


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Object:
    key: str
    size: int
    etag: str


class Bucket:
    """Every call raises CannotSend if there is no answer, and S3Refused, which is one too, if it
    is an error."""

    def __init__(self, access: S3Access, name: str, http: Outbound, clock: Clock) -> None:
        self._access = access
        self._name = name
        self._http = http
        self._clock = clock

    async def put(self, key: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Store an object in one piece: it is there wholly or not at all."""
        request = self._request("PUT", key, "", headers, body)
        response = await self._http.send(replace(request, timeout_s=PUT_S))
        if response.status != 200:
            raise _refusal(response.status, response.body)

    @asynccontextmanager
    async def reading(self, key: str, start: int = 0, etag: str = "") -> AsyncIterator[Stream]:
        """The object from a byte on, in parts. With an `etag` it must still be that object."""
        headers = {"range": f"bytes={start}-"} if start else {}
        if etag:
            headers["if-match"] = etag
        request = self._request("GET", key, "", headers)
        async with self._http.stream(replace(request, timeout_s=READ_S)) as stream:
            if stream.status not in (200, 206):
                raise _refusal(stream.status, await _bounded(stream, ERROR_BYTES))
            # Not every storage keeps to what it is asked, so its answer is looked at.
            told = stream.headers.get("content-range", "bytes 0-")
            if not told.startswith(f"bytes {start}-"):
                raise CannotSend("The answer is another part of the object than was asked for.")
            if etag and stream.headers.get("etag", "").strip('"') != etag.strip('"'):
                raise CannotSend("The object has changed.")
            yield stream

    async def listed(self, prefix: str, after: str = "") -> AsyncIterator[S3Object]:
        """The objects whose keys begin with a prefix, in the order of their keys; those behind
        `after`."""
        token: str | None = ""
        while token is not None:
            asked = {"list-type": "2", "max-keys": str(PAGE), "prefix": prefix}
            if token:
                asked["continuation-token"] = token
            elif after:
                asked["start-after"] = after
            found, token = _page(await self._answer(asked))
            for each in found:
                yield each

    async def _answer(self, asked: Mapping[str, str]) -> bytes:
        query = "&".join(f"{name}={quote(asked[name], safe='-_.~')}" for name in sorted(asked))
        request = self._request("GET", "", query, {})
        async with self._http.stream(replace(request, timeout_s=READ_S)) as stream:
            body = await _bounded(stream, ANSWER_BYTES)
            if stream.status != 200:
                raise _refusal(stream.status, body)
        return body

    def _request(
        self, method: str, key: str, query: str, headers: Mapping[str, str], body: bytes = b""
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
        return signed(request, target, access, self._clock()) if access.access_key_id else request


@cache
def _signer() -> tuple[Any, Any]:
    # Takes a while to load, and only here.
    return import_module("awscrt.auth"), import_module("awscrt.http")


def signed(request: Request, target: str, access: S3Access, now: datetime) -> Request:
    """The request with a signature of version 4 for S3, over its headers and its body's hash."""
    auth, http = _signer()
    how = auth.AwsSigningConfig(
        algorithm=auth.AwsSigningAlgorithm.V4,
        signature_type=auth.AwsSignatureType.HTTP_REQUEST_HEADERS,
        credentials_provider=auth.AwsCredentialsProvider.new_static(
            access.access_key_id, access.secret_access_key
        ),
        region=access.region,
        service="s3",
        date=now,
        # As S3 wants it: the path as it is sent.
        use_double_uri_encode=False,
        should_normalize_uri_path=False,
        signed_body_value=sha256(request.body).hexdigest(),
        signed_body_header_type=auth.AwsSignedBodyHeaderType.X_AMZ_CONTENT_SHA_256,
    )
    asked = http.HttpRequest(
        request.method, target, http.HttpHeaders(list(request.headers.items()))
    )
    headers = auth.aws_sign_request(asked, how).result().headers
    return replace(request, headers={name.lower(): value for name, value in headers})


async def _bounded(stream: Stream, most: int) -> bytes:
    body = bytearray()
    async for part in stream.parts:
        body += part
        if len(body) > most:
            raise CannotSend("The answer is too long.")
    return bytes(body)


def _refusal(status: int, body: bytes) -> S3Refused:
    try:
        told = _tree(body)
    except CannotSend:
        return S3Refused(status, "", "")
    return S3Refused(status, _text(told, "Code"), _text(told, "Message"))


def _page(body: bytes) -> tuple[list[S3Object], str | None]:
    """The objects of a page, and what asks for the next one."""
    tree = _tree(body)
    try:
        found = [
            S3Object(
                key=_text(each, "Key"), size=int(_text(each, "Size")), etag=_text(each, "ETag")
            )
            for each in tree.iterfind("{*}Contents")
        ]
    except ValueError:
        raise CannotSend("The answer is no list of objects.") from None
    return found, _text(tree, "NextContinuationToken") or None


def _tree(body: bytes) -> ElementTree.Element:
    try:
        # Bounded, and without anything that could stand for more than it is.
        if b"<!" in body:
            raise CannotSend("The answer is no XML that storage sends.")
        return ElementTree.fromstring(body)  # noqa: S314
    except ElementTree.ParseError:
        raise CannotSend("The answer is not XML.") from None


def _text(tree: ElementTree.Element, name: str) -> str:
    return tree.findtext(f"{{*}}{name}") or ""
