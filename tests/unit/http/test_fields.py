import contextlib
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from annotated_types import MaxLen
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AllowInfNan

from hedgerow.errors import Invalid
from hedgerow.http.errors import error_reply
from hedgerow.http.fields import INT32_MAX, LEFT_OUT, Between, Fields, Text, validated
from tests.unit.generated import bounded


class Colour(StrEnum):
    RED = "red"


class Inner(Fields):
    size: Annotated[int, Between()] = 0


class Thing(Fields):
    """One field of every kind that bodies have."""

    needed: Annotated[str, Text(10)]
    text: Annotated[str, Text(10)] = LEFT_OUT
    number: Annotated[int, Between(-5, 5)] = 0
    whole: Annotated[int, Between()] = 0
    ratio: Annotated[float, AllowInfNan(False)] = 0.0
    flag: bool = False
    kind: Literal["a", "b"] = "a"
    colour: Colour = Colour.RED
    tags: Annotated[list[Annotated[str, Text(10)]], MaxLen(2)] = LEFT_OUT
    counts: dict[str, int] = LEFT_OUT
    inner: Inner = LEFT_OUT
    maybe: Annotated[str, Text(10)] | None = None


def thing(**fields: Any) -> Thing:
    return validated(Thing, {"needed": "x", **fields})


def refusal(value: Any) -> tuple[str, str, str | None]:
    with pytest.raises(Invalid) as raised:
        validated(Thing, value)
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
def test_each_broken_rule_has_the_words_that_clients_know(
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
def test_a_fault_inside_a_value_is_named_by_its_way_there(
    fields: dict[str, Any], words: tuple[str, str], attr: str
) -> None:
    assert refusal({"needed": "x", **fields}) == (*words, attr)


def test_a_field_that_is_missing_is_required() -> None:
    assert refusal({"text": "a"}) == ("required", "This field is required.", "needed")


def test_of_several_faults_the_first_field_is_told() -> None:
    assert refusal({"needed": None, "number": "x", "flag": "x"})[2] == "needed"


@pytest.mark.parametrize(
    ("body", "kind"), [([], "list"), ("x", "str"), (5, "int"), (None, "NoneType"), (True, "bool")]
)
def test_a_body_that_is_no_object_is_refused_whole(body: Any, kind: str) -> None:
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
def test_numbers_and_texts_stand_for_each_other_as_forms_need(
    field: str, value: Any, meant: Any
) -> None:
    assert getattr(thing(**{field: value}), field) == meant


def test_unknown_fields_are_ignored_and_those_left_out_are_known_to_be() -> None:
    found = thing(id=7, unknown="x", number=1)
    assert found.model_fields_set == {"needed", "number"}


def test_the_mark_of_a_field_left_out_is_not_documented_as_a_default() -> None:
    properties = Thing.model_json_schema()["properties"]
    assert "default" not in properties["text"]
    assert properties["number"]["default"] == 0


ANY_TEXT = st.text(st.characters(codec=None), max_size=20)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=5,
)


@bounded
@given(st.dictionaries(st.sampled_from(sorted(Thing.model_fields)) | ANY_TEXT, ANY_JSON) | ANY_JSON)
def test_any_body_is_taken_or_refused_in_an_answer_that_can_be_sent(body: Any) -> None:
    with contextlib.suppress(Invalid):
        validated(Thing, body)
        return
    with pytest.raises(Invalid) as raised:
        validated(Thing, body)
    assert error_reply(raised.value).status == 400
