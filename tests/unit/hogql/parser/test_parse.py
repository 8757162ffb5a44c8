"""Parser limits and error messages."""

import pytest

from hedgerow.hogql.ast import Constant, Field, FunctionCall
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.parser.parse import MAX_QUERY_CHARS, parse_expr, parse_order, parse_select


def parse_error(text: str) -> str:
    with pytest.raises(HogQLError) as caught:
        parse_select(text)
    assert caught.value.code == "hogql_error"
    assert caught.value.status == 400
    return caught.value.detail


def test_nodes_have_positions_that_equality_ignores() -> None:
    spaced = parse_expr("  lower( event )")
    assert (
        spaced
        == parse_expr("lower(event)")
        == FunctionCall(name="lower", args=(Field(chain=("event",)),))
    )
    assert (spaced.start, spaced.end) == (2, 16)


def test_order() -> None:
    order = parse_order("count() desc nulls last")
    assert order.descending
    assert order.nulls == "last"


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("select", "Expected an expression, but the query ends at line 1, column 7."),
        ("select 1\nfrom events\nwhere (a", "Expected ), but the query ends at line 3, column 9."),
        ("select 'a", "Unterminated string at line 1, column 8. Add the closing quote."),
        ("select /* a", "Unterminated comment at line 1, column 8. Close it with */."),
        ("select ‘a’", "Unexpected character '‘' at line 1, column 8. Use straight quotes."),
        ("select a frm events",
         "Expected the end of the query, but found 'events' at line 1, column 14."),
        ("select 1 from events settings x = 1",
         "SETTINGS is not supported in a query at line 1, column 22."),
        ("select 1 from numbers(10)", "Table functions are not supported at line 1, column 15."),
        ("select a from b array join c",
         "Each array of ARRAY JOIN requires an alias at line 1, column 28."),
        ("select date '2020-01-01'",
         "A DATE literal is not supported at line 1, column 8. Write toDate('...')."),
        ("select 1" + "0" * 200, "This number is too large at line 1, column 8."),
    ],
)  # fmt: skip
def test_errors_contain_the_position(text: str, detail: str) -> None:
    assert parse_error(text) == detail


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
        "a" * (MAX_QUERY_CHARS + 1),
    ],
)
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(HogQLError):
        parse_expr(text)


def test_long_flat_expressions_are_parsed() -> None:
    assert len(parse_expr(" and ".join(["a = 1"] * 1_000)).exprs) == 1_000  # type: ignore[union-attr]
    assert len(parse_expr(" || ".join(["a"] * 1_000)).args) == 1_000  # type: ignore[union-attr]
    assert parse_expr("(" * 90 + "1" + ")" * 90) == Constant(value=1)
