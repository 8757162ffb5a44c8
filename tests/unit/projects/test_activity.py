from collections.abc import Mapping
from typing import Any

import pytest

from hedgerow.projects.activity import MASK, FieldChange, diff_fields

SECRET = frozenset({"token"})


def change(action: Any, field: str, before: Any, after: Any) -> FieldChange:
    return FieldChange(type="Project", action=action, field=field, before=before, after=after)


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ({}, {}, ()),
        ({"name": "a"}, {"name": "a"}, ()),
        ({"name": "a"}, {"name": "b"}, (change("changed", "name", "a", "b"),)),
        ({}, {"name": "a"}, (change("created", "name", None, "a"),)),
        ({"name": "a"}, {}, (change("deleted", "name", "a", None),)),
        ({"ids": [1]}, {"ids": [1, 2]}, (change("changed", "ids", [1], [1, 2]),)),
        ({"name": "a"}, {"name": None}, (change("changed", "name", "a", None),)),
    ],
)
def test_each_field_that_differs_is_one_change(
    before: Mapping[str, Any], after: Mapping[str, Any], changes: tuple[FieldChange, ...]
) -> None:
    assert diff_fields("Project", before, after) == changes


def test_changes_come_in_the_order_of_the_fields() -> None:
    found = diff_fields("Project", {"b": 1, "a": 1, "same": 0}, {"c": 2, "a": 2, "same": 0})
    assert [one.field for one in found] == ["b", "a", "c"]
    assert [one.action for one in found] == ["deleted", "changed", "created"]


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ({"token": "old"}, {"token": "new"}, (MASK, MASK)),
        ({}, {"token": "new"}, (None, MASK)),
        ({"token": "old"}, {}, (MASK, None)),
        ({"token": ""}, {"token": "new"}, ("", MASK)),
    ],
)
def test_secret_fields_are_masked(
    before: Mapping[str, Any], after: Mapping[str, Any], shown: tuple[Any, Any]
) -> None:
    (found,) = diff_fields("Project", before, after, secret=SECRET)
    assert (found.before, found.after) == shown


def test_other_fields_are_not_masked() -> None:
    found = diff_fields(
        "Project", {"token": "old", "name": "a"}, {"token": "new", "name": "b"}, secret=SECRET
    )
    assert found == (change("changed", "token", MASK, MASK), change("changed", "name", "a", "b"))
