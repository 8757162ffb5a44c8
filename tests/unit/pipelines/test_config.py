import contextlib
import json
from typing import Any

import pytest

from hedgerow.errors import Conflict, Invalid
from hedgerow.pipelines.config import (
    MASK,
    TEXT_MAX,
    changed,
    check_complete,
    for_pages,
    from_form,
    masked,
    replaced,
    unsealed,
)
from tests.unit.pipelines.world import BAR, HOOK, OTHER_SEALER, SEALER, sealed


def change(given: dict[str, Any], stored: dict[str, Any] | None = None) -> dict[str, Any]:
    return changed(HOOK, stored or {}, given, SEALER)


def refusal(given: dict[str, Any]) -> Invalid:
    with pytest.raises(Invalid) as raised:
        change(given)
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
def test_a_value_of_the_right_type_is_kept(key: str, value: Any, kept: Any) -> None:
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
def test_a_value_that_breaks_its_rule_is_refused_by_name(key: str, value: Any, code: str) -> None:
    error = refusal({"url": "fine", key: value})
    assert (error.attr, error.code) == (f"config__{key}", code)
    assert len(error.detail) < 200


@pytest.mark.parametrize("key", ["nope", "", "URL", "$sealed", "\x00"])
def test_an_unknown_setting_is_refused_by_name(key: str) -> None:
    assert refusal({key: 1}).attr == f"config__{key}"


def test_a_secret_is_stored_sealed() -> None:
    stored = change({"token": "hunter2", "headers": {"X-Key": "hunter3"}})
    assert "hunter" not in json.dumps(stored)
    seen = unsealed(HOOK, stored, SEALER)
    assert (seen["token"], seen["headers"]) == ("hunter2", {"X-Key": "hunter3"})


@pytest.mark.parametrize("unchanged", [MASK, None])
def test_the_mask_and_null_leave_a_secret_as_it_is(unchanged: str | None) -> None:
    stored = {"token": sealed("hunter2"), "size": 9}
    assert change({"token": unchanged}, stored) == stored
    assert change({"token": unchanged}) == {}
    assert replaced(HOOK, stored, {"token": unchanged}, SEALER) == {"token": stored["token"]}


def test_an_empty_text_clears_a_setting_and_null_clears_one_that_is_no_secret() -> None:
    stored = {"token": sealed("hunter2"), "size": 9, "url": "u", "note": "n"}
    assert change({"token": "", "size": None, "note": ""}, stored) == {"url": "u"}


def test_a_change_keeps_what_it_does_not_name_and_a_replacement_keeps_only_secrets() -> None:
    stored = {"token": sealed("hunter2"), "size": 9, "url": "u"}
    assert change({"url": "new"}, stored) == stored | {"url": "new"}
    assert replaced(HOOK, stored, {"url": "new"}, SEALER) == {
        "token": stored["token"],
        "url": "new",
    }


def test_the_stored_settings_themselves_are_never_touched() -> None:
    stored = {"size": 9}
    change({"size": "", "url": "u"}, stored)
    assert stored == {"size": 9}


def test_settings_that_the_schema_no_longer_has_go_at_the_next_change() -> None:
    stored = {"removed": 1, "url": "u"}
    assert change({"size": 1}, stored) == {"url": "u", "size": 1}
    assert "removed" not in masked(HOOK, stored)
    assert "removed" not in unsealed(HOOK, stored, SEALER)


def test_settings_that_the_schema_has_gained_show_their_default() -> None:
    assert masked(HOOK, {"url": "u"})["size"] == 5
    assert unsealed(HOOK, {"url": "u"}, SEALER)["size"] == 5


def test_a_setting_that_has_become_a_secret_is_masked_at_once() -> None:
    assert masked(HOOK, {"token": "in the clear"})["token"] == MASK
    assert unsealed(HOOK, {"token": "in the clear"}, SEALER)["token"] == "in the clear"


def test_what_goes_out_never_holds_a_secret_not_even_sealed() -> None:
    stored = change({"url": "u", "token": "hunter2", "headers": {"a": "hunter3"}})
    shown = masked(HOOK, stored)
    assert (shown["token"], shown["headers"]) == (MASK, MASK)
    assert list(shown) == [field.key for field in HOOK.settings]
    assert "$sealed" not in json.dumps(shown)
    assert masked(HOOK, {})["token"] is None


def test_pages_get_site_settings_and_nothing_else() -> None:
    stored = changed(BAR, {}, {"hidden": "h", "token": "hunter2"}, SEALER)
    assert for_pages(BAR, stored) == {"message": "hi"}
    assert for_pages(BAR, stored | {"message": "yo", "strange": 1}) == {"message": "yo"}


def test_a_secret_that_has_become_a_site_setting_does_not_reach_pages() -> None:
    stored = {"message": sealed("hunter2")}
    assert "$sealed" not in json.dumps(for_pages(BAR, stored))


def test_the_wrong_key_is_a_conflict_that_says_what_to_do() -> None:
    with pytest.raises(Conflict, match="Bring the key back"):
        unsealed(HOOK, {"token": sealed("hunter2")}, OTHER_SEALER)


def test_without_the_right_key_other_settings_can_still_be_changed() -> None:
    stored = {"token": sealed("hunter2")}
    assert changed(HOOK, stored, {"url": "u"}, OTHER_SEALER) == stored | {"url": "u"}


@pytest.mark.parametrize("value", [{"$sealed": "x"}, {"$sealed": 5}, {"$sealed": None}])
def test_a_plain_value_that_looks_sealed_does_not_lock_its_record(value: Any) -> None:
    """It is refused, or it comes back as it was."""
    with contextlib.suppress(Invalid):
        stored = change({"body": value})
        assert unsealed(HOOK, stored, SEALER)["body"] == value


def test_a_required_setting_without_a_value_is_named() -> None:
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
def test_json_settings_are_read_from_the_text_of_a_form(text: str, read: Any) -> None:
    assert from_form(HOOK, {"body": text, "url": "7"}) == {"body": read, "url": "7"}
