import pytest

from hedgerow.errors import Invalid
from hedgerow.projects.scopes import OBJECTS, allows, checked, is_scope


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
    assert allows(granted, needed) is allowed


@pytest.mark.parametrize("subject", sorted(OBJECTS))
def test_every_object_can_be_read_and_written(subject: str) -> None:
    assert is_scope(f"{subject}:read")
    assert is_scope(f"{subject}:write")


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
def test_nothing_else_is_a_scope(text: str) -> None:
    assert not is_scope(text)
    with pytest.raises(Invalid, match=r"^Invalid scope: ") as raised:
        checked(["plugin:read", text])
    assert raised.value.attr == "scopes"
    assert raised.value.detail == f"Invalid scope: {text}"


def test_scopes_keep_their_order_and_lose_their_repetitions() -> None:
    wanted = ["project:read", "*", "project:read", "plugin:write"]
    assert checked(wanted) == ("project:read", "*", "plugin:write")


def test_a_key_must_have_some_scope() -> None:
    with pytest.raises(Invalid) as raised:
        checked([])
    error = raised.value
    assert (error.code, error.detail, error.attr) == (
        "empty",
        "This list may not be empty.",
        "scopes",
    )
