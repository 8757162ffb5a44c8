import contextlib
import json
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from annotated_types import MaxLen
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AllowInfNan, BeforeValidator
from pydantic_core import PydanticCustomError

from hedgerow.errors import Invalid
from hedgerow.http.payload.body import FormFields
from hedgerow.http.payload.fields import (
    INT32_MAX,
    OMITTED,
    Between,
    Boolean,
    Fields,
    Text,
    validate,
)
from hedgerow.http.server.errors import build_error_reply
from tests.unit.generated import bounded


class Colour(StrEnum):
    RED = "red"


class Inner(Fields):
    size: Annotated[int, Between()] = 0


class Thing(Fields):
    """One field of each kind."""

    needed: Annotated[str, Text(10)]
    text: Annotated[str, Text(10)] = OMITTED
    number: Annotated[int, Between(-5, 5)] = 0
    whole: Annotated[int, Between()] = 0
    ratio: Annotated[float, AllowInfNan(False)] = 0.0
    flag: bool = False
    kind: Literal["a", "b"] = "a"
    colour: Colour = Colour.RED
    tags: Annotated[list[Annotated[str, Text(10)]], MaxLen(2)] = OMITTED
    counts: dict[str, int] = OMITTED
    inner: Inner = OMITTED
    maybe: Annotated[str, Text(10)] | None = None


def thing(**fields: Any) -> Thing:
    return validate(Thing, {"needed": "x", **fields})


def refusal(value: Any) -> tuple[str, str, str | None]:
    with pytest.raises(Invalid) as raised:
        validate(Thing, value)
    error = raised.value
    assert (error.status, error.type) == (400, "validation_error")
    return error.code, error.detail, error.attr


INTEGER = ("invalid_input", "A valid integer is required.")
NUMBER = ("invalid_input", "A valid number is required.")
BOOLEAN = ("invalid_input", "Must be a valid boolean.")
STRING = ("invalid_input", "Not a valid string.")
BLANK = ("blank", "This field may not be blank.")
NULL = ("null", "This field may not be null.")
LONG = ("max_length", "Ensure this field has no more than 10 characters.")
NUL = ("null_characters_not_allowed", "Null characters are not allowed.")
SURROGATE = ("surrogate_characters_not_allowed", "Surrogate characters are not allowed: U+D800.")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("text", None, NULL),
        ("text", "", BLANK),
        ("text", " \t\n ", BLANK),
        ("text", "x" * 11, LONG),
        ("text", 10**11, LONG),
        ("text", "a\x00b", NUL),
        ("text", "\x00" * 99, NUL),
        ("text", "a\ud800b", SURROGATE),
        ("text", True, STRING),
        ("text", ["a"], STRING),
        ("text", {"a": 1}, STRING),
        ("maybe", "", BLANK),
        ("number", None, NULL),
        ("number", True, INTEGER),
        ("number", False, INTEGER),
        ("number", "five", INTEGER),
        ("number", "", INTEGER),
        ("number", 1.5, INTEGER),
        ("number", "1.5", INTEGER),
        ("number", [], INTEGER),
        ("number", "9" * 5000, INTEGER),
        ("number", "\ud800", INTEGER),
        ("number", 6, ("max_value", "Ensure this value is less than or equal to 5.")),
        ("number", "-6", ("min_value", "Ensure this value is greater than or equal to -5.")),
        (
            "whole",
            INT32_MAX + 1,
            ("max_value", "Ensure this value is less than or equal to 2147483647."),
        ),
        (
            "whole",
            -INT32_MAX - 2,
            ("min_value", "Ensure this value is greater than or equal to -2147483648."),
        ),
        ("whole", 10**400, ("max_value", "Ensure this value is less than or equal to 2147483647.")),
        ("ratio", None, NULL),
        ("ratio", "x", NUMBER),
        ("ratio", [], NUMBER),
        ("ratio", float("inf"), NUMBER),
        ("flag", None, NULL),
        ("flag", "maybe", BOOLEAN),
        ("flag", 2, BOOLEAN),
        ("flag", [], BOOLEAN),
        ("kind", "c", ("invalid_choice", '"c" is not a valid choice.')),
        ("kind", "c" * 200, ("invalid_choice", f'"{"c" * 100}" is not a valid choice.')),
        ("kind", 5, ("invalid_choice", '"5" is not a valid choice.')),
        ("colour", "blue", ("invalid_choice", '"blue" is not a valid choice.')),
        ("tags", None, NULL),
        ("tags", "a", ("not_a_list", 'Expected a list of items but got type "str".')),
        ("tags", {"a": 1}, ("not_a_list", 'Expected a list of items but got type "dict".')),
        (
            "tags",
            ["a", "b", "c"],
            ("max_length", "Ensure this field has no more than 2 elements."),
        ),
        ("counts", [], ("not_a_dict", 'Expected a dictionary of items but got type "list".')),
    ],
)
def test_each_broken_rule_has_the_message_of_the_contract(
    field: str, value: Any, words: tuple[str, str]
) -> None:
    assert refusal({"needed": "x", field: value}) == (*words, field)


@pytest.mark.parametrize(
    ("fields", "words", "attr"),
    [
        ({"tags": [5, None]}, NULL, "tags__1"),
        ({"tags": ["a", ""]}, BLANK, "tags__1"),
        ({"tags": ["a\x00"]}, NUL, "tags__0"),
        ({"counts": {"a": 1, "b": "x"}}, INTEGER, "counts__b"),
        ({"inner": {"size": "x"}}, INTEGER, "inner__size"),
        ({"inner": {"size": None}}, NULL, "inner__size"),
    ],
)
def test_error_in_a_nested_value_names_its_path(
    fields: dict[str, Any], words: tuple[str, str], attr: str
) -> None:
    assert refusal({"needed": "x", **fields}) == (*words, attr)


def test_missing_field_is_required() -> None:
    assert refusal({"text": "a"}) == ("required", "This field is required.", "needed")


def test_only_the_first_error_is_reported() -> None:
    assert refusal({"needed": None, "number": "x", "flag": "x"})[2] == "needed"


@pytest.mark.parametrize(
    ("body", "kind"), [([], "list"), ("x", "str"), (5, "int"), (None, "NoneType"), (True, "bool")]
)
def test_body_that_is_not_an_object_is_rejected(body: Any, kind: str) -> None:
    detail = f"Invalid data. Expected a dictionary, but got {kind}."
    assert refusal(body) == ("invalid_input", detail, None)


@pytest.mark.parametrize(
    ("field", "value", "meant"),
    [
        ("text", "  padded ", "padded"),
        ("text", 5, "5"),
        ("text", 1.5, "1.5"),
        ("text", "ünï 🌿", "ünï 🌿"),
        ("number", "5", 5),
        ("number", " -5 ", -5),
        ("number", 5.0, 5),
        ("whole", -INT32_MAX - 1, -INT32_MAX - 1),
        ("ratio", "0.5", 0.5),
        ("flag", "true", True),
        ("flag", "0", False),
        ("flag", 1, True),
        ("colour", "red", Colour.RED),
        ("tags", [], []),
        ("tags", ["a", 5], ["a", "5"]),
        ("maybe", None, None),
    ],
)
def test_form_text_is_coerced_to_numbers_and_booleans(field: str, value: Any, meant: Any) -> None:
    assert getattr(thing(**{field: value}), field) == meant


class Emptied(Fields):
    needed: int
    number: Annotated[int, Between()] = 0
    flag: Boolean = OMITTED
    colour: Colour | None = Colour.RED
    maybe: Boolean | None = True
    text: Annotated[str, Text(10, blank=True)] | None = None
    short: Annotated[str, Text(10)] = OMITTED
    tags: list[str] = OMITTED
    counts: dict[str, int] | None = None
    parts: list[dict[str, int]] | None = None
    value: Any = None


def test_empty_text_in_a_form_is_null_or_omitted_unless_the_field_takes_texts() -> None:
    names = ("number", "flag", "colour", "maybe", "text", "counts", "parts", "value", "unknown")
    form = FormFields.from_pairs([("needed", "5"), *((name, "") for name in names)])
    found = validate(Emptied, form)
    assert (found.needed, found.number) == (5, 0)
    assert (found.colour, found.maybe, found.text, found.counts) == (None, None, "", None)
    assert (found.parts, found.value) == (None, "")
    assert not {"number", "flag"} & found.model_fields_set
    for name, code in (("needed", "invalid_input"), ("short", "blank")):
        with pytest.raises(Invalid) as raised:
            validate(Emptied, FormFields.from_pairs([("needed", "5"), (name, ""), (name, "")]))
        assert (raised.value.attr, raised.value.code) == (name, code)
    tags = FormFields.from_pairs([("needed", "5"), ("tags", "")])
    assert validate(Emptied, tags).tags == [""]


def test_unknown_fields_are_ignored_and_omitted_fields_are_not_set() -> None:
    found = thing(id=7, unknown="x", number=1)
    assert found.model_fields_set == {"needed", "number"}


def test_omitted_default_is_not_in_the_schema() -> None:
    properties = Thing.model_json_schema()["properties"]
    assert "default" not in properties["text"]
    assert properties["number"]["default"] == 0


ANY_TEXT = st.text(st.characters(codec=None), max_size=20)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=5,
)


def _quote(value: Any) -> Any:
    detail = json.dumps(value, ensure_ascii=False)
    raise PydanticCustomError("quoted", "{detail}", {"detail": detail})


class Quoting(Fields):
    plain: str = ""
    quoted: Annotated[Any, BeforeValidator(_quote)] = None


@pytest.mark.parametrize("value", ["\ud800", {"\ud800": 1}, [["a\ud800"]]])
@pytest.mark.parametrize("name", ["plain", "quoted"])
def test_lone_surrogate_that_an_error_would_quote_is_refused(name: str, value: Any) -> None:
    with pytest.raises(Invalid) as raised:
        validate(Quoting, {name: value})
    error = raised.value
    assert error.attr == name
    if name == "quoted" or isinstance(value, str):
        detail = "Surrogate characters are not allowed: U+D800."
        assert (error.code, error.detail) == ("surrogate_characters_not_allowed", detail)
    assert build_error_reply(error).status == 400


@bounded
@given(st.dictionaries(st.sampled_from(sorted(Thing.model_fields)) | ANY_TEXT, ANY_JSON) | ANY_JSON)
def test_any_body_is_accepted_or_rejected_with_an_encodable_error(body: Any) -> None:
    with contextlib.suppress(Invalid):
        validate(Thing, body)
        return
    with pytest.raises(Invalid) as raised:
        validate(Thing, body)
    assert build_error_reply(raised.value).status == 400
