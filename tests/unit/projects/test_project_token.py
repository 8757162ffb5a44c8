from typing import Any

import pytest

from hedgerow.projects.project_token import find_project_token


@pytest.mark.parametrize(
    ("body", "token"),
    [
        ({"token": "a"}, "a"),
        ({"api_key": "a"}, "a"),
        ({"$token": "a", "token": "b", "api_key": "c"}, "a"),
        ({"token": "", "api_key": "a"}, "a"),
        ({"token": None, "properties": {"token": "a"}}, "a"),
        ({"token": "a", "properties": {"token": "b"}}, "a"),
        ({"api_key": "", "properties": {"token": "a"}}, "a"),
        ({"api_key": ""}, ""),
        ({"api_key": "", "properties": {}}, ""),
        ({"api_key": 5}, 5),
        ({"properties": {"token": ["a"]}}, ["a"]),
        ({"properties": "token"}, None),
        ({"properties": {"api_key": "a"}}, None),
        ({}, None),
    ],
)
def test_token_is_found_in_each_field(body: dict[str, Any], token: Any) -> None:
    assert find_project_token(body) == token
