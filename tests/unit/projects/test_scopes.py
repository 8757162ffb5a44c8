import re

import pytest

from hedgerow.errors import Invalid
from hedgerow.projects.scopes import SCOPE_OBJECTS, is_allowed, is_scope, validate_scopes


@pytest.mark.parametrize(
    ("granted", "needed", "allowed"),
    [
        (["*"], "plugin:write", True),
        (["*"], "*", True),
        (["plugin:read"], "plugin:read", True),
        (["plugin:write"], "plugin:read", True),
        (["plugin:read"], "plugin:write", False),
        (["plugin:write"], "project:read", False),
        (["plugin:read", "project:write"], "project:write", True),
        (["plugin:write"], "*", False),
        ([], "plugin:read", False),
    ],
)
def test_write_implies_read_and_a_star_implies_everything(
    granted: list[str], needed: str, allowed: bool
) -> None:
    assert is_allowed(granted, needed) is allowed


@pytest.mark.parametrize("scope_object", sorted(SCOPE_OBJECTS))
def test_every_object_can_be_read_and_written(scope_object: str) -> None:
    assert is_scope(f"{scope_object}:read")
    assert is_scope(f"{scope_object}:write")


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "plugin",
        "plugin:",
        "plugin:admin",
        "plugin:read:write",
        "Plugin:read",
        "*:read",
        "plugin:*",
        " *",
        "unicorn:read",
    ],
)
def test_other_texts_are_not_scopes(text: str) -> None:
    assert not is_scope(text)
    with pytest.raises(Invalid, match=r"^Invalid scope: ") as raised:
        validate_scopes(["plugin:read", text])
    assert raised.value.attr == "scopes"
    assert raised.value.detail.startswith(f"Invalid scope: {text}. ")
    assert "feature_flag" in raised.value.detail


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("plugn:read", "plugin:read"),
        ("feature-flags:write", "feature_flag:write"),
        ("flags:read", "feature_flag:read"),
        ("events:read", "query:read"),
        ("destination:write", "plugin:write"),
        ("Query:READ", "query:read"),
        ("person:admin", "person:read or person:write"),
        ("survey", "survey:read or survey:write"),
        ("keys:write", "*"),
        ("**", "*"),
    ],
)
def test_unknown_scope_has_a_suggestion(text: str, meant: str) -> None:
    with pytest.raises(Invalid, match=re.escape(f" Did you mean {meant}? ")):
        validate_scopes([text])


def test_scope_like_no_other_has_no_suggestion() -> None:
    with pytest.raises(Invalid) as raised:
        validate_scopes(["unicorn:read"])
    assert "Did you mean" not in raised.value.detail


def test_scopes_are_unique_and_ordered() -> None:
    scopes = ["project:read", "*", "project:read", "plugin:write"]
    assert validate_scopes(scopes) == ("project:read", "*", "plugin:write")


def test_key_requires_a_scope() -> None:
    with pytest.raises(Invalid) as raised:
        validate_scopes([])
    error = raised.value
    assert (error.code, error.detail, error.attr) == (
        "empty",
        "This list may not be empty.",
        "scopes",
    )
