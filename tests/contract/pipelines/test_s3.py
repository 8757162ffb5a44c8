"""Objects of a real S3 server, which checks every signature, over the guarded HTTP client."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hedgerow.lib.clock import utc_now
from hedgerow.outbound.http_client import GuardedHttpClient
from hedgerow.outbound.ssrf_guard import SsrfGuard
from hedgerow.pipelines.destinations.s3 import (
    Bucket,
    S3Access,
    S3Error,
    S3Object,
    parse_listing,
)
from hedgerow.plugin.http import TransportError
from tests.support.receiver import PlannedResponse, Receiver
from tests.support.s3 import KEY_ID, SECRET, S3Server

ODD = "dir one/ü +&=?%~(1).json"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def folder(server: S3Server, request: pytest.FixtureRequest) -> Path:
    return server.create_bucket("b" + str(abs(hash(request.node.name)) % 10**9))


@pytest.fixture
async def http() -> AsyncIterator[GuardedHttpClient]:
    opened = GuardedHttpClient(SsrfGuard(allow_private=True))
    yield opened
    await opened.close()


@pytest.fixture
def access(server: S3Server) -> S3Access:
    return S3Access(
        endpoint=server.endpoint,
        region="us-east-1",
        access_key_id=KEY_ID,
        secret_access_key=SECRET,
    )


@pytest.fixture
def bucket(access: S3Access, folder: Path, http: GuardedHttpClient) -> Bucket:
    return Bucket(access, folder.name, http, utc_now)


async def list_objects(bucket: Bucket, prefix: str) -> list[S3Object]:
    """List all pages, one after the other."""
    found: list[S3Object] = []
    token: str | None = ""
    while token is not None:
        page, token = parse_listing(await bucket.fetch_listing(prefix, token=token))
        found += page
    return found


async def read(bucket: Bucket, key: str, start: int = 0, etag: str = "") -> bytes:
    async with bucket.read(key, start, etag) as stream:
        return b"".join([part async for part in stream.chunks])


@pytest.mark.parametrize("key", ["plain.jsonl", ODD, "empty"])
async def test_an_object_is_put_and_read(bucket: Bucket, folder: Path, key: str) -> None:
    body = b"" if key == "empty" else b"some bytes \0 " * 100
    await bucket.put(key, body, {"content-type": "application/x-ndjson"})
    assert await read(bucket, key) == body


async def test_an_object_is_read_from_an_offset_in_chunks(bucket: Bucket) -> None:
    body = b"0123456789" * 100_000
    await bucket.put("large", body, {})
    sizes = []
    async with bucket.read("large", start=500_003) as stream:
        rest = bytearray()
        async for part in stream.chunks:
            sizes.append(len(part))
            rest += part
    assert bytes(rest) == body[500_003:]
    assert max(sizes) <= 64 * 1024


async def test_a_changed_object_is_not_read(bucket: Bucket) -> None:
    await bucket.put("key", b"one", {})
    (first,) = await list_objects(bucket, "key")
    assert await read(bucket, "key", start=1, etag=first.etag) == b"ne"
    await bucket.put("key", b"another", {})
    with pytest.raises(TransportError, match="has changed"):
        await read(bucket, "key", start=1, etag=first.etag)
    with pytest.raises(S3Error, match="InvalidRange"):
        await read(bucket, "key", start=100)


async def test_a_read_can_be_abandoned(bucket: Bucket) -> None:
    await bucket.put("large", b"x" * 2_000_000, {})
    async with bucket.read("large") as stream:
        assert await anext(stream.chunks)
    assert len(await read(bucket, "large")) == 2_000_000


async def test_objects_are_listed_page_by_page(bucket: Bucket, folder: Path) -> None:
    # The first listing makes the server scan the folder.
    for number in range(1203):
        (folder / f"part-{number:04}").write_bytes(b"x" * (number % 5))
    (folder / "other").write_bytes(b"")
    (folder / ODD.partition("/")[0]).mkdir()
    (folder / ODD).write_bytes(b"odd")
    found = await list_objects(bucket, "part-")
    assert [each.key for each in found] == [f"part-{number:04}" for number in range(1203)]
    assert [each.size for each in found[:6]] == [0, 1, 2, 3, 4, 0]
    assert all(each.etag for each in found)
    (odd,) = await list_objects(bucket, "dir one/")
    assert odd.key == ODD
    assert await list_objects(bucket, "none/") == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"secret_access_key": "another"}, "SignatureDoesNotMatch"),
        ({"access_key_id": "another"}, "InvalidAccessKeyId"),
    ],
)
async def test_wrong_keys_are_rejected_with_advice(
    access: S3Access, folder: Path, http: GuardedHttpClient, change: dict[str, str], code: str
) -> None:
    bucket = Bucket(replace(access, **change), folder.name, http, utc_now)  # type: ignore[arg-type]
    with pytest.raises(S3Error, match=code) as error:
        await bucket.put("key", b"x", {})
    assert error.value.status == 403
    assert "Check the" in str(error.value)


async def test_a_missing_object_or_bucket_is_an_error(
    access: S3Access, bucket: Bucket, http: GuardedHttpClient
) -> None:
    with pytest.raises(S3Error, match="NoSuchKey"):
        await read(bucket, "none")
    with pytest.raises(S3Error, match="NoSuchBucket"):
        await Bucket(access, "no-such-bucket", http, utc_now).put("key", b"x", {})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html",
        b"<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>",
        b"<x><Contents><Size>a</Size></Contents></x>",
    ],
)
async def test_a_response_that_is_not_s3_is_an_error(
    access: S3Access, http: GuardedHttpClient, body: bytes
) -> None:
    with Receiver() as receiver:
        receiver.decide = lambda _: PlannedResponse(body=body)
        endpoint = receiver.url.removesuffix("/hook")
        bucket = Bucket(replace(access, endpoint=endpoint), "mine", http, utc_now)
        with pytest.raises(TransportError):
            await list_objects(bucket, "")


async def test_an_endless_listing_is_rejected(access: S3Access, http: GuardedHttpClient) -> None:
    with Receiver() as receiver:
        receiver.decide = lambda _: PlannedResponse(body=b"<a>" + b" " * 5_000_000)
        endpoint = receiver.url.removesuffix("/hook")
        bucket = Bucket(replace(access, endpoint=endpoint), "mine", http, utc_now)
        with pytest.raises(TransportError, match="too long"):
            await list_objects(bucket, "")


async def test_a_private_address_is_rejected_by_default(access: S3Access, folder: Path) -> None:
    http = GuardedHttpClient(SsrfGuard(allow_private=False))
    bucket = Bucket(access, folder.name, http, utc_now)
    with pytest.raises(TransportError, match="private network"):
        await bucket.put("key", b"x", {})
    with pytest.raises(TransportError, match="private network"):
        await read(bucket, "key")
    await http.close()
    assert list(folder.iterdir()) == []
