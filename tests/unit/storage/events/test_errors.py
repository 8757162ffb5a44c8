"""Which errors of ClickHouse are temporary, or an operator's to resolve."""

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from hedgerow.errors import Invalid, Unavailable
from hedgerow.storage.events.clickhouse import is_damage, translate_error


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (201, "quota"),
        (202, "overloaded"),
        (225, "coordination"),
        (285, "replicas"),
        (341, "replicas"),
        (497, "right"),
        (516, "password"),
    ],
)
def test_error_of_the_server_is_unavailable(code: int, reason: str) -> None:
    translated = translate_error(DatabaseError("refused", code=code))
    assert isinstance(translated, Unavailable)
    assert reason in translated.detail


NO_PIPE = (
    "Received ClickHouse exception, code: 298, server response: Code: 298. DB::ErrnoException: "
    "Cannot create pipe: , errno: 24, strerror: Too many open files. (CANNOT_PIPE)"
)
NO_EPOLL = (
    "Received ClickHouse exception, code: 573, server response: Code: 573. DB::Exception: Code: "
    "573. DB::ErrnoException: Cannot open epoll descriptor: , errno: 24, strerror: Too many open "
    "files: data for INSERT was parsed from file. (EPOLL_ERROR) (version 26.9.2.1). (EPOLL_ERROR)"
)


@pytest.mark.parametrize(("code", "text"), [(298, NO_PIPE), (573, NO_EPOLL)])
def test_a_refusal_of_the_operating_system_is_unavailable(code: int, text: str) -> None:
    translated = translate_error(DatabaseError(text, code=code))
    assert isinstance(translated, Unavailable)
    assert "Too many open files" in translated.detail


def test_a_text_of_a_query_is_no_refusal_of_the_operating_system() -> None:
    quoted = "DB::ErrnoException: , errno: 24, strerror: Too many open files"
    text = f"server response: Code: 6. DB::Exception: Cannot parse string '{quoted}' as Float64"
    error = DatabaseError(text, code=6)
    assert translate_error(error) is error


def test_exceeded_time_limit_is_invalid() -> None:
    assert isinstance(translate_error(DatabaseError("slow", code=159)), Invalid)


def test_error_of_the_query_is_left_to_the_caller() -> None:
    error = DatabaseError("unknown function", code=46)
    assert translate_error(error) is error


UNREADABLE = [
    (33, "Cannot read all marks from file data.cmrk4, is eof: true (CANNOT_READ_ALL_DATA)"),
    (33, "Cannot read all data. Bytes read: 0: (while reading column uuid): While executing X"),
    (32, "Attempt to read after eof: while reading part 202603_1_1_0"),
    (1001, "std::filesystem::filesystem_error: in rename: Input/output error"),
]


@pytest.mark.parametrize(("code", "text"), UNREADABLE)
def test_an_unreadable_file_is_damage(code: int, text: str) -> None:
    error = DatabaseError(f"server response: Code: {code}. DB::Exception: {text}", code=code)
    assert is_damage(translate_error(error))


@pytest.mark.parametrize("code", [3, 32, 33, 49, 117, 1000])
def test_a_value_that_a_query_converts_is_no_damage(code: int) -> None:
    text = "Cannot parse 'a' (while reading column x): while converting source column"
    for each in (text, "Bytes expected: 16"):
        error = DatabaseError(f"server response: {each}", code=code)
        assert translate_error(error) is error
