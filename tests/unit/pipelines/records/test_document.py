import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Invalid
from hedgerow.lib.yamlio import FromEnv, decode, encode
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.model import ComponentId, Record
from hedgerow.pipelines.records.document import build_document, parse_document
from hedgerow.plugin.component import Family
from tests.unit.generated import bounded
from tests.unit.pipelines.sample_components import BAR, HOOK, build_record, encrypted

HOOK_ID, BAR_ID = ComponentId(1000), ComponentId(1001)
MINIMAL = {"name": "Mine", "component": "acme/hook"}


def make_catalogue() -> Catalogue:
    catalogue = Catalogue()
    catalogue.add({"acme/hook": HOOK_ID, "acme/bar": BAR_ID}, [HOOK, BAR], [])
    return catalogue


def refusal(value: Any) -> Invalid:
    with pytest.raises(Invalid) as raised:
        parse_document(value, make_catalogue())
    return raised.value


def export(*records: Record) -> dict[str, Any]:
    """Return the document of these records after a YAML round trip."""
    document = build_document(records, make_catalogue())
    decoded = decode(encode(document))
    assert decoded == document
    assert isinstance(decoded, dict)
    return decoded


def variables(*records: Record) -> list[str]:
    """Return the variables of the secrets in document order."""
    return [
        value.name
        for item in export(*records)["destinations"]
        for value in item["settings"].values()
        if isinstance(value, FromEnv)
    ]


def test_document_contains_only_stored_values() -> None:
    full = build_record(
        1,
        description="All of them",
        config={"url": "https://x", "size": 7, "body": {"a": [None, 1.5]}, "token": encrypted("t")},
    )
    bare = build_record(2, name="", enabled=False, order=2)
    bar = build_record(
        3, family=Family.FRONTEND_APP, component_id=BAR_ID, config={"message": "a\nb"}
    )
    assert export(full, bare, bar) == {
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


def test_document_contains_no_secret_not_even_encrypted() -> None:
    record = build_record(
        config={"token": encrypted("hunter2"), "headers": encrypted({"A": "hunter3"})}
    )
    text = encode(export(record))
    assert "hunter" not in text
    assert "$sealed" not in text
    assert record.config["token"]["$sealed"] not in text


def test_document_contains_no_encrypted_value_of_a_plain_setting() -> None:
    record = build_record(config={"url": encrypted("https://x"), "note": "n"})
    text = encode(export(record))
    assert "$sealed" not in text
    assert record.config["url"]["$sealed"] not in text


def test_records_without_component_and_settings_without_field_are_omitted() -> None:
    gone = build_record(1, component_id=ComponentId(4711))
    stale = build_record(2, name="Stale", config={"url": "https://x", "renamed": 1})
    [item] = export(gone, stale)["destinations"]
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
def test_every_secret_has_its_own_ascii_variable(names: list[str], expected: list[str]) -> None:
    records = [
        build_record(n, name=name, config={"token": encrypted(n)}) for n, name in enumerate(names)
    ]
    assert [name.removeprefix("PIPELINE_") for name in variables(*records)] == [
        name.removeprefix("PIPELINE_") for name in expected
    ]


@bounded
@given(st.lists(st.text(max_size=8) | st.sampled_from(["a", "A", "a 2", "a_2", "a token"])))
def test_variables_of_secrets_are_unique_for_any_names(names: list[str]) -> None:
    config = {"token": {"$sealed": "x"}, "headers": {"$sealed": "y"}}
    records = [build_record(n, name=name, config=config) for n, name in enumerate(names)]
    document = build_document(records, make_catalogue())
    names_found = [
        value.name for item in document["destinations"] for value in item["settings"].values()
    ]
    assert len(set(names_found)) == len(names_found) == 2 * len(names)
    assert all(name.isascii() and name.replace("_", "").isalnum() for name in names_found)


@pytest.mark.parametrize(
    "text", ["${X}", "!env X", "2026-01-02", "yes", "a\nb", "{{x}}", "~", "注文"]
)
def test_any_text_round_trips(text: str) -> None:
    record = build_record(
        name=text, description=text, config={"url": text, "body": [text, {text: 1}]}
    )
    [parsed] = parse_document(export(record), make_catalogue())[Family.DESTINATION]
    assert (parsed.name, parsed.description) == (text, text)
    assert parsed.settings == {"url": text, "body": [text, {text: 1}]}


def test_omitted_fields_have_defaults() -> None:
    [parsed] = parse_document({"destinations": [{"component": "acme/hook"}]}, make_catalogue())[
        Family.DESTINATION
    ]
    assert parsed.component.id == HOOK_ID
    assert (parsed.enabled, parsed.name, parsed.description) == (False, "", "")
    assert parsed.settings == {}
    assert parsed.place == "destinations[0]"


def test_null_means_omitted_and_text_is_stripped() -> None:
    item = {"component": "acme/hook", "name": "  A b ", "description": None, "settings": None}
    [parsed] = parse_document({"destinations": [item]}, make_catalogue())[Family.DESTINATION]
    assert (parsed.name, parsed.description, parsed.settings) == ("A b", "", {})
    assert parsed.place == "destinations[0] (A b)"


def test_omitted_section_differs_from_an_empty_one() -> None:
    document = parse_document(
        {"version": 1, "frontend_apps": None, "import_apps": []}, make_catalogue()
    )
    assert document == {Family.FRONTEND_APP: [], Family.IMPORT_APP: []}
    assert parse_document({}, make_catalogue()) == {}


@pytest.mark.parametrize("value", [None, [], "text", 5, True])
def test_document_must_be_a_mapping(value: Any) -> None:
    assert "destinations, frontend_apps, import_apps" in refusal(value).detail


@pytest.mark.parametrize("version", [0, 2, "1", None, 1.5, [1]])
def test_document_of_another_version_is_refused(version: Any) -> None:
    error = refusal({"version": version})
    assert (error.attr, "Expected: 1." in error.detail) == ("version", True)


@pytest.mark.parametrize(
    ("item", "path", "message"),
    [
        ("text", "destinations[1]", "component"),
        (None, "destinations[1]", "component"),
        (MINIMAL | {"order": 3}, "destinations[1]", "`order`"),
        (MINIMAL | {"Name": "x"}, "destinations[1]", "`Name`"),
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
        (MINIMAL | {"settings": [1]}, "destinations[1].settings", "settings and values"),
        (MINIMAL | {"settings": "url"}, "destinations[1].settings", "settings and values"),
        (MINIMAL | {"settings": {"url": "\x00"}}, "destinations[1].settings", "Null"),
        (MINIMAL | {"settings": {"body": [{"\x00": 1}]}}, "destinations[1].settings", "Null"),
        ({"name": "x"}, "destinations[1].component", "acme/hook"),
        ({"component": "acme/nothing"}, "destinations[1].component", "acme/hook"),
        ({"component": "acme/bar"}, "destinations[1].component", "acme/hook"),
        ({"component": 1000}, "destinations[1].component", "acme/hook"),
        ({"component": ["acme/hook"]}, "destinations[1].component", "acme/hook"),
    ],
)
def test_error_names_the_path(item: Any, path: str, message: str) -> None:
    error = refusal({"destinations": [MINIMAL, item]})
    assert (error.attr, message in error.detail) == (path, True), error.detail


@pytest.mark.parametrize("settings", [False, 0, "", []])
def test_settings_that_are_not_a_mapping_are_refused(settings: Any) -> None:
    error = refusal({"destinations": [MINIMAL | {"settings": settings}]})
    assert error.attr == "destinations[0].settings"


@pytest.mark.parametrize("value", ["text", {"a": 1}, 5, False])
def test_section_must_be_a_list(value: Any) -> None:
    assert refusal({"import_apps": value}).attr == "import_apps"


def test_unknown_section_is_refused_with_the_known_ones() -> None:
    detail = refusal({"version": 1, "destination": []}).detail
    assert detail == "Unknown field `destination`. Did you mean `destinations`?"
    detail = refusal({"version": 1, "x": []}).detail
    assert "version, destinations, frontend_apps, import_apps" in detail


def test_longest_name_and_description_are_accepted() -> None:
    item = MINIMAL | {"name": "x" * 400, "description": "ü" * 1000}
    [parsed] = parse_document({"destinations": [item]}, make_catalogue())[Family.DESTINATION]
    assert json.dumps([parsed.name, parsed.description]) == json.dumps(["x" * 400, "ü" * 1000])
