from collections.abc import Mapping
from typing import Any

import pytest

from hedgerow.projects.activity import MASK, Change, differences

SECRET = frozenset({"token"})


def change(action: Any, field: str, before: Any, after: Any) -> Change:
    return Change(type="Project", action=action, field=field, before=before, after=after)


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
    before: Mapping[str, Any], after: Mapping[str, Any], changes: tuple[Change, ...]
) -> None:
    assert differences("Project", before, after) == changes


def test_changes_come_in_the_order_of_the_fields() -> None:
    found = differences("Project", {"b": 1, "a": 1, "same": 0}, {"c": 2, "a": 2, "same": 0})
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
def test_a_secret_is_told_as_changed_and_never_shown(
    before: Mapping[str, Any], after: Mapping[str, Any], shown: tuple[Any, Any]
) -> None:
    (found,) = differences("Project", before, after, secret=SECRET)
    assert (found.before, found.after) == shown


def test_fields_beside_a_secret_one_are_shown() -> None:
    found = differences(
        "Project", {"token": "old", "name": "a"}, {"token": "new", "name": "b"}, secret=SECRET
    )
    assert found == (change("changed", "token", MASK, MASK), change("changed", "name", "a", "b"))
