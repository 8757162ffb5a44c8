"""JSON encoding of query results."""

from datetime import UTC, date, datetime
from decimal import Decimal
from ipaddress import ip_address
from typing import Any
from uuid import UUID

import pytest

from hedgerow.events.query.result_json import encode_result


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            [2**70, 1.5, float("nan"), float("inf"), None, True],
            "[1180591620717411303424,1.5,null,null,null,true]",
        ),
        ([Decimal("1.50"), UUID(int=1)], '["1.50","00000000-0000-0000-0000-000000000001"]'),
        (
            [datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), date(2026, 1, 2)],
            '["2026-01-02T03:04:05Z","2026-01-02"]',
        ),
        ([ip_address("1.2.3.4"), (1, "a")], '["1.2.3.4",[1,"a"]]'),
        (
            {1: 2, "a": {None: 1, (1, "b"): [{"c": "\ud800"}]}},
            '{"1":2,"a":{"null":1,"[1,\\"b\\"]":[{"c":"\ufffd"}]}}',
        ),
    ],
)
def test_any_value_is_encoded(value: Any, expected: str) -> None:
    assert encode_result(value).decode() == expected
