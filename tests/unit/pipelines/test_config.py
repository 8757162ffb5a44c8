import contextlib
import json
from typing import Any

import pytest

from hedgerow.errors import Conflict, Invalid
from hedgerow.pipelines.config import (
    MASK,
    TEXT_MAX,
    check_complete,
    decrypt_settings,
    mask_settings,
    merge_settings,
    parse_form,
    replace_settings,
    select_site_settings,
)
from tests.unit.pipelines.sample_components import BAR, CIPHER, HOOK, OTHER_CIPHER, encrypted


def change(changes: dict[str, Any], stored: dict[str, Any] | None = None) -> dict[str, Any]:
    return merge_settings(HOOK, stored or {}, changes, CIPHER)


def refusal(changes: dict[str, Any]) -> Invalid:
    with pytest.raises(Invalid) as raised:
        change(changes)
    return raised.value


@pytest.mark.parametrize(
    ("key", "value", "kept"),
    [
        ("url", "https://example.com/ü🪝", "https://example.com/ü🪝"),
        ("url", " ", " "),
        ("note", "two\nlines", "two\nlines"),
        ("note", "x" * TEXT_MAX, "x" * TEXT_MAX),
        ("loud", True, True),
        ("loud", "true", True),
        ("loud", "false", False),
        ("loud", False, False),
        ("size", 0, 0),
        ("size", "-7", -7),
        ("size", 2**31 - 1, 2**31 - 1),
        ("size", -(2**31), -(2**31)),
        ("method", "PUT", "PUT"),
        ("body", {"a": [1, None, {"b": "ü"}]}, {"a": [1, None, {"b": "ü"}]}),
        ("body", [], []),
        ("body", 0, 0),
        ("body", False, False),
        ("body", MASK, MASK),
    ],
)
def test_value_of_the_right_type_is_kept(key: str, value: Any, kept: Any) -> None:
    result = change({key: value})
    assert result == {key: kept}
    assert type(result[key]) is type(kept)


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("url", 5, "invalid_input"),
        ("url", ["x"], "invalid_input"),
        ("url", "a\x00b", "null_characters_not_allowed"),
        ("url", "\ud800", "surrogate_characters_not_allowed"),
        ("note", "x" * (TEXT_MAX + 1), "max_length"),
        ("loud", 1, "invalid_input"),
        ("loud", "True", "invalid_input"),
        ("loud", [], "invalid_input"),
        ("size", 1.5, "invalid_input"),
        ("size", True, "invalid_input"),
        ("size", "1e3", "invalid_input"),
        ("size", "--5", "invalid_input"),
        ("size", "5-", "invalid_input"),
        ("size", "-", "invalid_input"),
        ("size", "9" * 5000, "invalid_input"),
        ("size", 2**31, "max_value"),
        ("size", "99999999999", "max_value"),
        ("method", "GET", "invalid_choice"),
        ("method", ["POST"], "invalid_choice"),
        ("method", {"a": "x" * 5000}, "invalid_choice"),
        ("body", {"a": [{"b": "\x00"}]}, "null_characters_not_allowed"),
        ("body", {"\x00": 1}, "null_characters_not_allowed"),
        ("headers", {"a": ["\x00"]}, "null_characters_not_allowed"),
        ("token", 5, "invalid_input"),
    ],
)
def test_invalid_value_is_refused_by_name(key: str, value: Any, code: str) -> None:
    error = refusal({"url": "fine", key: value})
    assert (error.attr, error.code) == (f"config__{key}", code)
    assert len(error.detail) < 200


@pytest.mark.parametrize("key", ["nope", "", "URL", "$sealed", "\x00"])
def test_unknown_setting_is_refused_by_name(key: str) -> None:
    assert refusal({key: 1}).attr == f"config__{key}"


def test_secret_is_stored_encrypted() -> None:
    stored = change({"token": "hunter2", "headers": {"X-Key": "hunter3"}})
    assert "hunter" not in json.dumps(stored)
    seen = decrypt_settings(HOOK, stored, CIPHER)
    assert (seen["token"], seen["headers"]) == ("hunter2", {"X-Key": "hunter3"})


@pytest.mark.parametrize("unchanged", [MASK, None])
def test_mask_and_null_keep_a_secret(unchanged: str | None) -> None:
    stored = {"token": encrypted("hunter2"), "size": 9}
    assert change({"token": unchanged}, stored) == stored
    assert change({"token": unchanged}) == {}
    assert replace_settings(HOOK, stored, {"token": unchanged}, CIPHER) == {
        "token": stored["token"]
    }


def test_empty_text_clears_any_setting_and_null_a_plain_one() -> None:
    stored = {"token": encrypted("hunter2"), "size": 9, "url": "u", "note": "n"}
    assert change({"token": "", "size": None, "note": ""}, stored) == {"url": "u"}


def test_change_keeps_omitted_settings_and_replacement_only_secrets() -> None:
    stored = {"token": encrypted("hunter2"), "size": 9, "url": "u"}
    assert change({"url": "new"}, stored) == stored | {"url": "new"}
    assert replace_settings(HOOK, stored, {"url": "new"}, CIPHER) == {
        "token": stored["token"],
        "url": "new",
    }


def test_stored_settings_are_not_mutated() -> None:
    stored = {"size": 9}
    change({"size": "", "url": "u"}, stored)
    assert stored == {"size": 9}


def test_settings_removed_from_the_schema_disappear_at_the_next_change() -> None:
    stored = {"removed": 1, "url": "u"}
    assert change({"size": 1}, stored) == {"url": "u", "size": 1}
    assert "removed" not in mask_settings(HOOK, stored)
    assert "removed" not in decrypt_settings(HOOK, stored, CIPHER)


def test_new_settings_show_their_default() -> None:
    assert mask_settings(HOOK, {"url": "u"})["size"] == 5
    assert decrypt_settings(HOOK, {"url": "u"}, CIPHER)["size"] == 5


def test_setting_that_became_secret_is_masked() -> None:
    assert mask_settings(HOOK, {"token": "in the clear"})["token"] == MASK
    assert decrypt_settings(HOOK, {"token": "in the clear"}, CIPHER)["token"] == "in the clear"


def test_no_response_contains_a_secret_not_even_encrypted() -> None:
    stored = change({"url": "u", "token": "hunter2", "headers": {"a": "hunter3"}})
    shown = mask_settings(HOOK, stored)
    assert (shown["token"], shown["headers"]) == (MASK, MASK)
    assert list(shown) == [field.key for field in HOOK.settings]
    assert "$sealed" not in json.dumps(shown)
    assert mask_settings(HOOK, {})["token"] is None


def test_pages_get_only_site_settings() -> None:
    stored = merge_settings(BAR, {}, {"hidden": "h", "token": "hunter2"}, CIPHER)
    assert select_site_settings(BAR, stored) == {"message": "hi"}
    assert select_site_settings(BAR, stored | {"message": "yo", "strange": 1}) == {"message": "yo"}


def test_secret_that_became_a_site_setting_is_not_sent_to_pages() -> None:
    stored = {"message": encrypted("hunter2")}
    assert "$sealed" not in json.dumps(select_site_settings(BAR, stored))


def test_wrong_key_is_a_conflict_with_instructions() -> None:
    with pytest.raises(Conflict, match="Restore the key"):
        decrypt_settings(HOOK, {"token": encrypted("hunter2")}, OTHER_CIPHER)


def test_without_the_right_key_other_settings_can_still_be_changed() -> None:
    stored = {"token": encrypted("hunter2")}
    assert merge_settings(HOOK, stored, {"url": "u"}, OTHER_CIPHER) == stored | {"url": "u"}


@pytest.mark.parametrize("value", [{"$sealed": "x"}, {"$sealed": 5}, {"$sealed": None}])
def test_plain_value_that_looks_encrypted_does_not_lock_its_record(value: Any) -> None:
    """The value is refused, or it round-trips."""
    with contextlib.suppress(Invalid):
        stored = change({"body": value})
        assert decrypt_settings(HOOK, stored, CIPHER)["body"] == value


def test_missing_required_setting_is_refused_by_name() -> None:
    with pytest.raises(Invalid) as raised:
        check_complete(HOOK, {"size": 1})
    assert (raised.value.attr, raised.value.code) == ("config__url", "required")
    check_complete(HOOK, {"url": "u"})


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('{"a": [1]}', {"a": [1]}),
        ("7", 7),
        ("not JSON", "not JSON"),
        ("[", "["),
        ("", ""),
        (MASK, MASK),
        ("\ud800", "\ud800"),
    ],
)
def test_json_settings_are_parsed_from_form_text(text: str, read: Any) -> None:
    assert parse_form(HOOK, {"body": text, "url": "7"}) == {"body": read, "url": "7"}
