from typing import Any

import pytest

from hedgerow.projects.token_places import token_in


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
def test_a_key_is_found_in_each_of_its_places(body: dict[str, Any], token: Any) -> None:
    assert token_in(body) == token
