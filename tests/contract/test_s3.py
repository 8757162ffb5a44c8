"""Objects of a real S3 server, which checks every signature, over the guarded way out."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hedgerow.lib.clock import utc_now
from hedgerow.pipelines.s3 import Bucket, S3Access, S3Refused
from hedgerow.pipelines.sending import CannotSend
from hedgerow.storage.guard import Guard
from hedgerow.storage.outbound import HttpOutbound
from tests.receiver import Answer, Receiver
from tests.s3 import KEY_ID, SECRET, S3Server

ODD = "dir one/ü +&=?%~(1).json"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def folder(server: S3Server, request: pytest.FixtureRequest) -> Path:
    return server.new_bucket("b" + str(abs(hash(request.node.name)) % 10**9))


@pytest.fixture
async def http() -> AsyncIterator[HttpOutbound]:
    opened = HttpOutbound(Guard(allow_private=True))
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
def bucket(access: S3Access, folder: Path, http: HttpOutbound) -> Bucket:
    return Bucket(access, folder.name, http, utc_now)


async def read(bucket: Bucket, key: str, start: int = 0, etag: str = "") -> bytes:
    async with bucket.reading(key, start, etag) as stream:
        return b"".join([part async for part in stream.parts])


@pytest.mark.parametrize("key", ["plain.jsonl", ODD, "empty"])
async def test_an_object_is_put_and_read(bucket: Bucket, folder: Path, key: str) -> None:
    body = b"" if key == "empty" else b"some bytes \0 " * 100
    await bucket.put(key, body, {"content-type": "application/x-ndjson"})
    assert await read(bucket, key) == body


async def test_an_object_is_read_from_a_place_on_in_parts(bucket: Bucket) -> None:
    body = b"0123456789" * 100_000
    await bucket.put("large", body, {})
    sizes = []
    async with bucket.reading("large", start=500_003) as stream:
        rest = bytearray()
        async for part in stream.parts:
            sizes.append(len(part))
            rest += part
    assert bytes(rest) == body[500_003:]
    assert max(sizes) <= 64 * 1024


async def test_another_object_than_was_asked_for_is_not_read(bucket: Bucket) -> None:
    await bucket.put("key", b"one", {})
    (first,) = [each async for each in bucket.listed("key")]
    assert await read(bucket, "key", start=1, etag=first.etag) == b"ne"
    await bucket.put("key", b"another", {})
    with pytest.raises(CannotSend, match="has changed"):
        await read(bucket, "key", start=1, etag=first.etag)
    with pytest.raises(S3Refused, match="InvalidRange"):
        await read(bucket, "key", start=100)


async def test_whoever_stops_reading_leaves_nothing_behind(bucket: Bucket) -> None:
    await bucket.put("large", b"x" * 2_000_000, {})
    async with bucket.reading("large") as stream:
        assert await anext(stream.parts)
    assert len(await read(bucket, "large")) == 2_000_000


async def test_objects_are_listed_page_after_page(bucket: Bucket, folder: Path) -> None:
    # Nobody has listed it yet, so the server looks.
    for number in range(1203):
        (folder / f"part-{number:04}").write_bytes(b"x" * (number % 5))
    (folder / "other").write_bytes(b"")
    (folder / ODD.partition("/")[0]).mkdir()
    (folder / ODD).write_bytes(b"odd")
    found = [each async for each in bucket.listed("part-")]
    assert [each.key for each in found] == [f"part-{number:04}" for number in range(1203)]
    assert [each.size for each in found[:6]] == [0, 1, 2, 3, 4, 0]
    assert all(each.etag for each in found)
    (odd,) = [each async for each in bucket.listed("dir one/")]
    assert odd.key == ODD
    assert [each async for each in bucket.listed("none/")] == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"secret_access_key": "another"}, "SignatureDoesNotMatch"),
        ({"access_key_id": "another"}, "InvalidAccessKeyId"),
    ],
)
async def test_wrong_keys_are_refused_and_told(
    access: S3Access, folder: Path, http: HttpOutbound, change: dict[str, str], code: str
) -> None:
    bucket = Bucket(replace(access, **change), folder.name, http, utc_now)  # type: ignore[arg-type]
    with pytest.raises(S3Refused, match=code) as told:
        await bucket.put("key", b"x", {})
    assert told.value.status == 403
    assert "Check the" in str(told.value)


async def test_what_is_not_there_is_told(
    access: S3Access, bucket: Bucket, http: HttpOutbound
) -> None:
    with pytest.raises(S3Refused, match="NoSuchKey"):
        await read(bucket, "none")
    with pytest.raises(S3Refused, match="NoSuchBucket"):
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
async def test_another_answer_than_storage_gives_is_told(
    access: S3Access, http: HttpOutbound, body: bytes
) -> None:
    with Receiver() as receiver:
        receiver.decide = lambda _: Answer(body=body)
        endpoint = receiver.url.removesuffix("/hook")
        bucket = Bucket(replace(access, endpoint=endpoint), "mine", http, utc_now)
        with pytest.raises(CannotSend):
            [each async for each in bucket.listed("")]


async def test_a_list_without_end_is_not_read(access: S3Access, http: HttpOutbound) -> None:
    with Receiver() as receiver:
        receiver.decide = lambda _: Answer(body=b"<a>" + b" " * 5_000_000)
        endpoint = receiver.url.removesuffix("/hook")
        bucket = Bucket(replace(access, endpoint=endpoint), "mine", http, utc_now)
        with pytest.raises(CannotSend, match="too long"):
            [each async for each in bucket.listed("")]


async def test_storage_of_this_machine_is_refused_by_default(
    access: S3Access, folder: Path
) -> None:
    http = HttpOutbound(Guard(allow_private=False))
    bucket = Bucket(access, folder.name, http, utc_now)
    with pytest.raises(CannotSend, match="private network"):
        await bucket.put("key", b"x", {})
    with pytest.raises(CannotSend, match="private network"):
        await read(bucket, "key")
    await http.close()
    assert list(folder.iterdir()) == []
