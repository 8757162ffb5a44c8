"""Which errors of ClickHouse are temporary, or an operator's to resolve."""

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from hedgerow.errors import Invalid, Unavailable
from hedgerow.storage.events.clickhouse import translate_error


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


def test_exceeded_time_limit_is_invalid() -> None:
    assert isinstance(translate_error(DatabaseError("slow", code=159)), Invalid)


def test_error_of_the_query_is_left_to_the_caller() -> None:
    error = DatabaseError("unknown function", code=46)
    assert translate_error(error) is error
