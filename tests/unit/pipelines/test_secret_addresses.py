"""Which settings decide where secrets are sent, and when secrets are required again."""

from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.pipelines.config import MASK
from hedgerow.pipelines.secret_addresses import check_secrets_sent_again, is_address
from hedgerow.plugin.component import Component, Family, SettingField, SettingType

COMPONENT = Component(
    key="acme/hook",
    family=Family.DESTINATION,
    name="Hook",
    description="",
    version="1",
    settings=(
        SettingField(key="server", name="Server", default="https://acme.example"),
        SettingField(key="topic", name="Topic"),
        SettingField(key="token", name="Token", secret=True),
        SettingField(key="key", name="Key", secret=True),
    ),
)
STORED = {"token": {"$sealed": "a"}, "key": {"$sealed": "b"}}


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("url", "", True),
        ("webhookUrl", "", True),
        ("API_HOST", "", True),
        ("smtp-port", "", True),
        ("target", "https://example.com/x", True),
        ("target", "example.com:80", True),
        ("target", "10.0.0.1", True),
        ("target", "[::1]:80", True),
        ("topic", "orders", False),
        ("message", "see https://example.com", False),
        ("imports", "a", False),
    ],
)
def test_addresses_are_recognized(key: str, value: str, expected: bool) -> None:
    assert is_address(SettingField(key=key, name=""), "", value) is expected


def test_declaration_has_priority() -> None:
    assert not is_address(SettingField(key="url", name="", is_address=False), "https://x.example")
    assert is_address(SettingField(key="topic", name="", is_address=True), "a", "b")
    text = SettingField(key="body", name="", type=SettingType.TEXT)
    assert not is_address(text, "https://x.example")


@pytest.mark.parametrize(
    ("after", "given", "again"),
    [
        ({"server": "https://x.example"}, {"server": "https://x.example"}, "token, key"),
        ({"server": "https://x.example"}, {"token": "t", "key": MASK}, "key"),
        ({"server": "https://x.example"}, {"token": None, "key": "k"}, "token"),
        ({"topic": "x.example"}, {}, "token, key"),
    ],
)
def test_kept_secrets_are_required_again(
    after: dict[str, Any], given: dict[str, Any], again: str
) -> None:
    with pytest.raises(Invalid, match=f"request: {again}\\."):
        check_secrets_sent_again(COMPONENT, STORED, {**STORED, **after}, given)


@pytest.mark.parametrize(
    ("before", "after", "given"),
    [
        (STORED, {**STORED, "topic": "orders"}, {"topic": "orders"}),
        (STORED, {**STORED, "server": "https://acme.example"}, {}),
        (STORED, {**STORED, "server": "https://x.example"}, {"token": "t", "key": "k"}),
        (STORED, {"server": "https://x.example"}, {"token": "", "key": ""}),
        ({}, {**STORED, "server": "https://x.example"}, {}),
    ],
)
def test_other_changes_need_no_secrets(
    before: dict[str, Any], after: dict[str, Any], given: dict[str, Any]
) -> None:
    check_secrets_sent_again(COMPONENT, before, after, given)
