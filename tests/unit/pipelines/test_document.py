import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Invalid
from hedgerow.lib.yamlio import FromEnv, decode, encode
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.document import composed, parsed
from hedgerow.pipelines.model import ComponentId, Family, Record
from tests.unit.generated import bounded
from tests.unit.pipelines.world import BAR, HOOK, a_record, sealed

HOOK_ID, BAR_ID = ComponentId(1000), ComponentId(1001)
MINIMAL = {"name": "Mine", "component": "acme/hook"}


def a_catalogue() -> Catalogue:
    catalogue = Catalogue()
    catalogue.add({"acme/hook": HOOK_ID, "acme/bar": BAR_ID}, [HOOK, BAR], [])
    return catalogue


def refusal(value: Any) -> Invalid:
    with pytest.raises(Invalid) as raised:
        parsed(value, a_catalogue())
    return raised.value


def written(*records: Record) -> dict[str, Any]:
    """The document of these records, through a file and back."""
    document = composed(records, a_catalogue())
    again = decode(encode(document))
    assert again == document
    assert isinstance(again, dict)
    return again


def variables(*records: Record) -> list[str]:
    """The variables of these records' secrets, in the document's order."""
    return [
        value.name
        for item in written(*records)["destinations"]
        for value in item["settings"].values()
        if isinstance(value, FromEnv)
    ]


def test_a_record_is_written_with_what_it_has_and_nothing_else() -> None:
    full = a_record(
        1,
        description="All of them",
        config={"url": "https://x", "size": 7, "body": {"a": [None, 1.5]}, "token": sealed("t")},
    )
    bare = a_record(2, name="", enabled=False, order=2)
    bar = a_record(3, family=Family.FRONTEND_APP, component_id=BAR_ID, config={"message": "a\nb"})
    assert written(full, bare, bar) == {
        "version": 1,
        "destinations": [
            {
                "name": "Mine",
                "component": "acme/hook",
                "enabled": True,
                "description": "All of them",
                "settings": {
                    "url": "https://x",
                    "size": 7,
                    "body": {"a": [None, 1.5]},
                    "token": FromEnv("PIPELINE_MINE_TOKEN"),
                },
            },
            {"component": "acme/hook", "enabled": False},
        ],
        "frontend_apps": [
            {
                "name": "Mine",
                "component": "acme/bar",
                "enabled": True,
                "settings": {"message": "a\nb"},
            }
        ],
        "import_apps": [],
        "transformations": [],
    }


def test_no_secret_and_no_seal_is_written() -> None:
    record = a_record(config={"token": sealed("hunter2"), "headers": sealed({"A": "hunter3"})})
    text = encode(written(record))
    assert "hunter" not in text
    assert "$sealed" not in text
    assert record.config["token"]["$sealed"] not in text


def test_a_sealed_value_is_not_written_though_its_setting_is_no_secret_any_more() -> None:
    record = a_record(config={"url": sealed("https://x"), "note": "n"})
    text = encode(written(record))
    assert "$sealed" not in text
    assert record.config["url"]["$sealed"] not in text


def test_records_without_their_component_and_settings_without_their_field_are_left_out() -> None:
    gone = a_record(1, component_id=ComponentId(4711))
    stale = a_record(2, name="Stale", config={"url": "https://x", "renamed": 1})
    [item] = written(gone, stale)["destinations"]
    assert (item["name"], item["settings"]) == ("Stale", {"url": "https://x"})


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["Orders"], ["PIPELINE_ORDERS_TOKEN"]),
        (["a b", "a-b", "a  b"], ["A_B_TOKEN", "A_B_TOKEN_2", "A_B_TOKEN_3"]),
        (["Shop", "shop"], ["SHOP_TOKEN", "SHOP_TOKEN_2"]),
        (["Shop", "Shop"], ["SHOP_TOKEN", "SHOP_TOKEN_2"]),
        (["注文", "売上"], ["TOKEN", "TOKEN_2"]),
        (["2nd hook"], ["2ND_HOOK_TOKEN"]),
        (["Café Ünïcode"], ["CAFE_UNICODE_TOKEN"]),
        (["SHOP", "ＳＨＯＰ"], ["SHOP_TOKEN", "SHOP_TOKEN_2"]),
        (["🪝"], ["TOKEN"]),
        ([""], ["ACME_HOOK_TOKEN"]),
        (["x=y$(z)\n"], ["X_Y_Z_TOKEN"]),
    ],
)
def test_every_secret_has_a_variable_of_plain_letters_of_its_own(
    names: list[str], expected: list[str]
) -> None:
    records = [a_record(n, name=name, config={"token": sealed(n)}) for n, name in enumerate(names)]
    assert [name.removeprefix("PIPELINE_") for name in variables(*records)] == [
        name.removeprefix("PIPELINE_") for name in expected
    ]


@bounded
@given(st.lists(st.text(max_size=8) | st.sampled_from(["a", "A", "a 2", "a_2", "a token"])))
def test_no_two_secrets_share_a_variable_whatever_the_names(names: list[str]) -> None:
    config = {"token": {"$sealed": "x"}, "headers": {"$sealed": "y"}}
    records = [a_record(n, name=name, config=config) for n, name in enumerate(names)]
    document = composed(records, a_catalogue())
    made = [value.name for item in document["destinations"] for value in item["settings"].values()]
    assert len(set(made)) == len(made) == 2 * len(names)
    assert all(name.isascii() and name.replace("_", "").isalnum() for name in made)


@pytest.mark.parametrize(
    "text", ["${X}", "!env X", "2026-01-02", "yes", "a\nb", "{{x}}", "~", "注文"]
)
def test_text_is_text_whatever_it_looks_like(text: str) -> None:
    record = a_record(name=text, description=text, config={"url": text, "body": [text, {text: 1}]})
    [wanted] = parsed(written(record), a_catalogue())[Family.DESTINATION]
    assert (wanted.name, wanted.description) == (text, text)
    assert wanted.settings == {"url": text, "body": [text, {text: 1}]}


def test_what_is_left_out_has_its_default() -> None:
    [wanted] = parsed({"destinations": [{"component": "acme/hook"}]}, a_catalogue())[
        Family.DESTINATION
    ]
    assert wanted.component.id == HOOK_ID
    assert (wanted.enabled, wanted.name, wanted.description) == (False, "", "")
    assert wanted.settings == {}
    assert wanted.place == "destinations[0]"


def test_null_means_left_out_and_blanks_around_text_go() -> None:
    item = {"component": "acme/hook", "name": "  A b ", "description": None, "settings": None}
    [wanted] = parsed({"destinations": [item]}, a_catalogue())[Family.DESTINATION]
    assert (wanted.name, wanted.description, wanted.settings) == ("A b", "", {})
    assert wanted.place == "destinations[0] (A b)"


def test_a_section_that_is_left_out_is_not_there_and_an_empty_one_is_empty() -> None:
    document = parsed({"version": 1, "frontend_apps": None, "import_apps": []}, a_catalogue())
    assert document == {Family.FRONTEND_APP: [], Family.IMPORT_APP: []}
    assert parsed({}, a_catalogue()) == {}


@pytest.mark.parametrize("value", [None, [], "text", 5, True])
def test_a_document_is_a_mapping(value: Any) -> None:
    assert "destinations, frontend_apps, import_apps" in refusal(value).detail


@pytest.mark.parametrize("version", [0, 2, "1", None, 1.5, [1]])
def test_a_document_of_another_version_is_refused(version: Any) -> None:
    refused = refusal({"version": version})
    assert (refused.attr, "reads version 1" in refused.detail) == ("version", True)


@pytest.mark.parametrize(
    ("item", "place", "word"),
    [
        ("text", "destinations[1]", "component"),
        (None, "destinations[1]", "component"),
        (MINIMAL | {"order": 3}, "destinations[1]", '"order"'),
        (MINIMAL | {"Name": "x"}, "destinations[1]", '"Name"'),
        (MINIMAL | {"enabled": "true"}, "destinations[1].enabled", "true or false"),
        (MINIMAL | {"enabled": 1}, "destinations[1].enabled", "true or false"),
        (MINIMAL | {"enabled": None}, "destinations[1].enabled", "true or false"),
        (MINIMAL | {"enabled": FromEnv("X")}, "destinations[1].enabled", "true or false"),
        (MINIMAL | {"name": 5}, "destinations[1].name", "quotes"),
        (MINIMAL | {"name": FromEnv("X")}, "destinations[1].name", "quotes"),
        (MINIMAL | {"name": "x" * 401}, "destinations[1].name", "400"),
        (MINIMAL | {"name": "a\x00b"}, "destinations[1].name", "Null"),
        (MINIMAL | {"name": "\ud800"}, "destinations[1].name", "Surrogate"),
        (MINIMAL | {"description": "x" * 1001}, "destinations[1].description", "1000"),
        (MINIMAL | {"description": ["x"]}, "destinations[1].description", "quotes"),
        (MINIMAL | {"settings": [1]}, "destinations[1].settings", "names and values"),
        (MINIMAL | {"settings": "url"}, "destinations[1].settings", "names and values"),
        (MINIMAL | {"settings": {"url": "\x00"}}, "destinations[1].settings", "Null"),
        (MINIMAL | {"settings": {"body": [{"\x00": 1}]}}, "destinations[1].settings", "Null"),
        ({"name": "x"}, "destinations[1].component", "acme/hook"),
        ({"component": "acme/nothing"}, "destinations[1].component", "acme/hook"),
        ({"component": "acme/bar"}, "destinations[1].component", "acme/hook"),
        ({"component": 1000}, "destinations[1].component", "acme/hook"),
        ({"component": ["acme/hook"]}, "destinations[1].component", "acme/hook"),
    ],
)
def test_a_refusal_names_the_place(item: Any, place: str, word: str) -> None:
    refused = refusal({"destinations": [MINIMAL, item]})
    assert (refused.attr, word in refused.detail) == (place, True), refused.detail


@pytest.mark.parametrize("settings", [False, 0, "", []])
def test_settings_that_are_no_mapping_are_refused_though_they_are_empty(settings: Any) -> None:
    refused = refusal({"destinations": [MINIMAL | {"settings": settings}]})
    assert refused.attr == "destinations[0].settings"


@pytest.mark.parametrize("value", ["text", {"a": 1}, 5, False])
def test_a_section_is_a_list(value: Any) -> None:
    assert refusal({"import_apps": value}).attr == "import_apps"


def test_an_unknown_section_is_named_with_those_there_are() -> None:
    detail = refusal({"version": 1, "destination": []}).detail
    assert '"destination"' in detail
    assert "version, destinations, frontend_apps, import_apps" in detail


def test_the_longest_name_and_description_are_taken() -> None:
    item = MINIMAL | {"name": "x" * 400, "description": "ü" * 1000}
    [wanted] = parsed({"destinations": [item]}, a_catalogue())[Family.DESTINATION]
    assert json.dumps([wanted.name, wanted.description]) == json.dumps(["x" * 400, "ü" * 1000])
