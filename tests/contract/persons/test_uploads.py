"""Static cohorts from CSV files, uploaded as browsers and curl do."""

import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.live import LiveServer, read_error

# More ids than either database accepts as parameters of one statement.
MANY = 70_000


@pytest.fixture
def base(live: LiveServer) -> Iterator[tuple[httpx.Client, str]]:
    """A client and the path of a new project."""
    with live.client() as client:
        created = client.post("/api/projects/", json={"name": f"Uploads {uuid.uuid4()}"})
        assert created.status_code == 201, created.text
        yield client, f"/api/projects/{created.json()['id']}"


def upload(at: tuple[httpx.Client, str], file: bytes, **fields: str) -> httpx.Response:
    client, base = at
    return client.post(
        f"{base}/cohorts/",
        data={"name": "Static", "is_static": "true", **fields},
        files={"csv": ("ids.csv", file, "text/csv")},
    )


def put(at: tuple[httpx.Client, str], *ids: str) -> dict[str, Any]:
    client, base = at
    created = client.post(f"{base}/persons/", json={"distinct_ids": list(ids)})
    assert created.status_code == 201, created.text
    person: dict[str, Any] = created.json()
    return person


@pytest.mark.parametrize(
    ("file", "count"),
    [
        (b"ann\nbob\n", 2),
        (b"distinct_id\r\nann\r\nnobody\r\n", 1),
        (b"Distinct_ID,email\nann,ann@x.org\n bob ,\n", 2),
        (b'"ann"\n"a ""quoted"" \xc3\xbc"\n', 2),
        (b"\n\n,\n", 0),
        (b"", 0),
        (b"distinct_id\n", 0),
        (b"ann", 1),
    ],
)
def test_a_file_fills_a_static_cohort(
    base: tuple[httpx.Client, str], file: bytes, count: int
) -> None:
    for id in ("ann", "bob", 'a "quoted" ü'):
        put(base, id)
    response = upload(base, file)
    assert response.status_code == 201, response.text
    assert (response.json()["is_static"], response.json()["count"]) == (True, count)


def test_a_second_file_adds_to_the_first(base: tuple[httpx.Client, str]) -> None:
    client, at = base
    for id in ("ann", "bob"):
        put(base, id)
    id = upload(base, b"ann\n").json()["id"]
    response = client.patch(f"{at}/cohorts/{id}/", files={"csv": ("more.csv", b"bob\nann\n")})
    assert (response.status_code, response.json()["count"]) == (200, 2)
    assert client.get(f"{at}/cohorts/{id}/").json()["name"] == "Static"


def test_a_byte_order_mark_is_ignored(base: tuple[httpx.Client, str]) -> None:
    put(base, "ann")
    assert upload(base, b"\xef\xbb\xbfann\n").json()["count"] == 1


def test_a_file_in_another_encoding_is_rejected(base: tuple[httpx.Client, str]) -> None:
    response = upload(base, b"m\xfcller\n")
    assert response.status_code == 400
    assert read_error(response)["code"] == "parse_error"


@pytest.mark.parametrize(
    ("file", "code"),
    [
        (b"ann\n\x00\n", "null_characters_not_allowed"),
        (b'"' + b"x" * 200_000 + b'"\n', "invalid_input"),
    ],
)
def test_an_invalid_csv_file_is_rejected_and_named(
    base: tuple[httpx.Client, str], file: bytes, code: str
) -> None:
    response = upload(base, file)
    assert response.status_code == 400
    assert (read_error(response)["attr"], read_error(response)["code"]) == ("csv", code)
    client, at = base
    assert client.get(f"{at}/cohorts/").json()["count"] == 0


def test_two_files_in_one_request_are_rejected(base: tuple[httpx.Client, str]) -> None:
    client, at = base
    files = [("csv", ("a.csv", b"a")), ("other", ("b.csv", b"b"))]
    response = client.post(f"{at}/cohorts/", data={"name": "x"}, files=files)
    assert response.status_code == 400
    assert read_error(response)["code"] == "parse_error"


def test_a_file_with_many_ids_is_accepted(base: tuple[httpx.Client, str]) -> None:
    put(base, "user-69999")
    file = "".join(f"user-{n}\n" for n in range(MANY)).encode()
    response = upload(base, file)
    assert (response.status_code, response.json().get("count")) == (201, 1)
