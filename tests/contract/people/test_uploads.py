"""Static cohorts from CSV files, as browsers and curl send them."""

import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.live import LiveServer, error_of

# As many ids as either engine refuses to take in one statement, and more.
MANY = 70_000


@pytest.fixture
def base(live: LiveServer) -> Iterator[tuple[httpx.Client, str]]:
    """A project of the test's own."""
    with live.client() as client:
        made = client.post("/api/projects/", json={"name": f"Uploads {uuid.uuid4()}"})
        assert made.status_code == 201, made.text
        yield client, f"/api/projects/{made.json()['id']}"


def upload(at: tuple[httpx.Client, str], file: bytes, **fields: str) -> httpx.Response:
    client, base = at
    return client.post(
        f"{base}/cohorts/",
        data={"name": "Static", "is_static": "true", **fields},
        files={"csv": ("ids.csv", file, "text/csv")},
    )


def put(at: tuple[httpx.Client, str], *ids: str) -> dict[str, Any]:
    client, base = at
    made = client.post(f"{base}/persons/", json={"distinct_ids": list(ids)})
    assert made.status_code == 201, made.text
    person: dict[str, Any] = made.json()
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
    answer = upload(base, file)
    assert answer.status_code == 201, answer.text
    assert (answer.json()["is_static"], answer.json()["count"]) == (True, count)


def test_a_second_file_adds_to_the_first(base: tuple[httpx.Client, str]) -> None:
    client, at = base
    for id in ("ann", "bob"):
        put(base, id)
    id = upload(base, b"ann\n").json()["id"]
    answer = client.patch(f"{at}/cohorts/{id}/", files={"csv": ("more.csv", b"bob\nann\n")})
    assert (answer.status_code, answer.json()["count"]) == (200, 2)
    assert client.get(f"{at}/cohorts/{id}/").json()["name"] == "Static"


def test_the_mark_of_a_spreadsheet_is_no_part_of_an_id(base: tuple[httpx.Client, str]) -> None:
    put(base, "ann")
    assert upload(base, b"\xef\xbb\xbfann\n").json()["count"] == 1


def test_a_file_in_another_encoding_is_refused(base: tuple[httpx.Client, str]) -> None:
    answer = upload(base, b"m\xfcller\n")
    assert answer.status_code == 400
    assert error_of(answer)["code"] == "parse_error"


@pytest.mark.parametrize(
    ("file", "code"),
    [
        (b"ann\n\x00\n", "null_characters_not_allowed"),
        (b'"' + b"x" * 200_000 + b'"\n', "invalid_input"),
    ],
)
def test_a_file_that_is_no_csv_is_refused_by_its_name(
    base: tuple[httpx.Client, str], file: bytes, code: str
) -> None:
    answer = upload(base, file)
    assert answer.status_code == 400
    assert (error_of(answer)["attr"], error_of(answer)["code"]) == ("csv", code)
    client, at = base
    assert client.get(f"{at}/cohorts/").json()["count"] == 0


def test_two_files_at_once_are_refused(base: tuple[httpx.Client, str]) -> None:
    client, at = base
    files = [("csv", ("a.csv", b"a")), ("other", ("b.csv", b"b"))]
    answer = client.post(f"{at}/cohorts/", data={"name": "x"}, files=files)
    assert answer.status_code == 400
    assert error_of(answer)["code"] == "parse_error"


def test_a_file_of_many_ids_is_taken(base: tuple[httpx.Client, str]) -> None:
    put(base, "user-69999")
    file = "".join(f"user-{n}\n" for n in range(MANY)).encode()
    answer = upload(base, file)
    assert (answer.status_code, answer.json().get("count")) == (201, 1)
