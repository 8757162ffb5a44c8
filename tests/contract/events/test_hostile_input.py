"""No parameter value causes a 5xx, and every error has the common format."""

import json
import string
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hedgerow.filters.operators import Operator
from tests.contract.api.shape import find_format_errors
from tests.support.live import PROJECT_KEY, LiveServer

TEXTS = [
    "after",
    "before",
    "event",
    "distinct_id",
    "person_id",
    "limit",
    "offset",
    "format",
    "cursor",
    "include_person",
    "orderBy",
    "properties",
    "select",
    "where",
]
UNUSUAL_TEXTS = [
    "",
    "0",
    "-1",
    "99999999999999999999",
    "-7d",
    "dStart",
    "[",
    "{}",
    "[]",
    '["*"]',
    "null",
    '["count()"]',
    "1_0199aaaa-0000-7000-8000-000000000001",
    "NaN",
    "1e400",
    "%",
    "\\",
    "'",
    "`",
]
KEYS = ["plan", "text", "selector", "tag_name", "id", "timestamp", "uuid"]
VALUES = ["-7d", "1.2.3", "1.*", "(a", "2026-01-01", "a > b"]
OPERATORS = [*Operator, "in", "not_in", "min", "is_cleaned_path_exact"]
TYPES = [
    "event",
    "person",
    "group",
    "cohort",
    "static-cohort",
    "element",
    "feature",
    "event_metadata",
    "hogql",
    "session",
]
EXPRESSIONS = [
    "event",
    "properties.a",
    "count()",
    "person.properties.x",
    "toInt(properties.n)",
    "1/0",
    "*",
    "person",
    "timestamp - 1",
    "[1][5]",
    "tuple(1)",
    "arrayJoin([1,2])",
    "now()",
    "uuid = 'x'",
    "toDateTime('x')",
    "properties.a > properties.b",
    "sum(properties.a)",
    "1 as x",
    "sleep(3)",
    "repeat('x', 1000000000)",
    "range(1000000000)",
    "match(event, '(')",
    "uniq(event) over ()",
]
words = st.text(string.printable + "äß🌿\u2028", max_size=30) | st.sampled_from(UNUSUAL_TEXTS)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | words
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
filters = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(KEYS) | words,
        "value": anything | st.sampled_from(VALUES),
        "operator": st.sampled_from(OPERATORS) | words,
        "type": st.sampled_from(TYPES),
        "group_type_index": st.integers(-1, 5) | anything,
        "values": st.lists(anything, max_size=2),
    },
)
expressions = st.sampled_from(EXPRESSIONS) | words
hostile = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def client(live: LiveServer) -> Iterator[httpx.Client]:
    with live.client() as client:
        properties = {"plan": "pro", "n": 1, "$elements": [{"tag_name": "a", "$el_text": "x"}]}
        batch = [{"event": "e", "distinct_id": "ann", "properties": properties}] * 3
        client.post("/batch/", json={"api_key": PROJECT_KEY, "batch": batch})
        yield client


def check(client: httpx.Client, path: str, parameters: Any) -> None:
    response = client.get(f"/api/projects/1/events/{path}", params=parameters)
    if response.status_code >= 400:
        assert response.status_code < 500, (parameters, response.text)
        kind = response.headers["content-type"]
        assert not list(find_format_errors(response.status_code, kind, response.content)), (
            response.text
        )
        assert "DB::" not in response.text
        assert "SELECT" not in response.json()["detail"]
    else:
        assert response.status_code == 200


@given(st.dictionaries(st.sampled_from(TEXTS), words, max_size=4))
@hostile
def test_any_text_in_any_parameter_causes_no_server_error(
    client: httpx.Client, parameters: dict[str, str]
) -> None:
    check(client, "", parameters)


@given(st.lists(filters, max_size=3) | filters | anything)
@hostile
def test_any_filter_causes_no_server_error(client: httpx.Client, sent: Any) -> None:
    check(client, "", {"properties": json.dumps(sent)})


@given(
    st.lists(expressions, max_size=3),
    st.lists(expressions, max_size=2),
    st.lists(expressions, max_size=1),
    st.sampled_from(["json", "csv"]),
)
@hostile
def test_any_expression_causes_no_server_error(
    client: httpx.Client, select: list[str], where: list[str], order: list[str], form: str
) -> None:
    sent = {"select": json.dumps(select), "where": json.dumps(where), "orderBy": json.dumps(order)}
    check(client, "", {**sent, "format": form, "limit": "2"})


@given(
    st.dictionaries(
        st.sampled_from(["key", "value", "event_name", "is_column", "format", "properties_plan"]),
        words
        | anything.map(json.dumps)
        | st.sampled_from(["event", "plan", "custom_event", "timestamp"]),
    )
)
@hostile
def test_any_text_in_values_causes_no_server_error(
    client: httpx.Client, parameters: dict[str, str]
) -> None:
    check(client, "values/", parameters)


@given(words)
@hostile
def test_any_text_as_an_id_causes_no_server_error(client: httpx.Client, text: str) -> None:
    response = client.get(f"/api/projects/1/events/{quote(text, safe='')}")
    assert response.status_code < 500, response.text
