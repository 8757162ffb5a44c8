"""Reading HogQL: bounds, and errors that say what, where and what was meant."""

import pytest

from hedgerow.hogql.ast import Call, Constant, Field
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.parse import MAX_LENGTH, parse_expr, parse_order, parse_select


def refusal(text: str) -> str:
    with pytest.raises(HogQLError) as caught:
        parse_select(text)
    assert caught.value.code == "hogql_error"
    assert caught.value.status == 400
    return caught.value.detail


def test_a_tree_knows_its_place_and_is_equal_without_it() -> None:
    spaced = parse_expr("  lower( event )")
    assert (
        spaced == parse_expr("lower(event)") == Call(name="lower", args=(Field(chain=("event",)),))
    )
    assert (spaced.start, spaced.end) == (2, 16)


def test_order() -> None:
    order = parse_order("count() desc nulls last")
    assert order.descending
    assert order.nulls == "last"


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("select", "Expected an expression, but the text ends at line 1, column 7."),
        ("select 1\nfrom events\nwhere (a", "Expected ), but the text ends at line 3, column 9."),
        ("select 'a", "A text in quotes does not end at line 1, column 8."),
        ("select /* a", "A comment does not end at line 1, column 8."),
        ("select ‘a’", "Unexpected character '‘' at line 1, column 8. Straight quotes are meant."),
        ("select a frm events", "Expected the end, but found 'events' at line 1, column 14."),
        ("select 1 from events settings x = 1",
         "SETTINGS cannot be chosen in a query at line 1, column 22."),
        ("select 1 from numbers(10)", "Table functions are not available at line 1, column 15."),
        ("select a from b array join c",
         "An array of ARRAY JOIN needs an alias at line 1, column 28."),
        ("select date '2020-01-01'",
         "A DATE literal is not supported at line 1, column 8. Write toDate('...')."),
        ("select 1" + "0" * 200, "This number is too large at line 1, column 8."),
    ],
)  # fmt: skip
def test_errors_tell_the_place(text: str, detail: str) -> None:
    assert refusal(text) == detail


@pytest.mark.parametrize(
    "text",
    [
        "(" * 200 + "1" + ")" * 200,
        "[" * 2_000,
        "f(" * 2_000,
        "not " * 2_000 + "a",
        "- " * 2_000 + "a",
        "+".join(["a"] * 1_000),
        "a" + "[1]" * 2_000,
        "a" + "::int" * 2_000,
        "a ? b : " * 2_000 + "c",
        "x -> " * 2_000 + "x",
        "f'{" * 2_000,
        "(select " * 2_000,
        "case when " * 2_000,
        "a between " * 2_000,
        "{" * 2_000,
        "a" * (MAX_LENGTH + 1),
    ],
)
def test_what_nests_too_deep_is_refused(text: str) -> None:
    with pytest.raises(HogQLError):
        parse_expr(text)


def test_long_and_flat_is_read() -> None:
    assert len(parse_expr(" and ".join(["a = 1"] * 1_000)).exprs) == 1_000  # type: ignore[union-attr]
    assert len(parse_expr(" || ".join(["a"] * 1_000)).args) == 1_000  # type: ignore[union-attr]
    assert parse_expr("(" * 90 + "1" + ")" * 90) == Constant(value=1)
