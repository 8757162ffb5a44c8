import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Invalid
from hedgerow.insights.trends.formulas import parse_formula
from tests.unit.generated import bounded


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A", 6),
        ("a + b", 8),
        ("A - B - C", 1),
        ("A / B * C", 9),
        ("A / (B * C)", 1),
        ("-(A + .5) * 2", -13),
        ("A / (B - 2)", 0),
        ("--A", 6),
        ("-A % (B * B)", 2),
        ("-B ** C", -8),
        ("B ** -1 ** 2 + +A", 6.5),
        ("A % (B - 2)", 0),
        ("(-A) ** .5 + 9 ** 9 ** 9", 0),
    ],
)
def test_formulas(text: str, expected: float) -> None:
    assert parse_formula(text, 3, "formula")([6, 2, 3]) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A +",
        "(A",
        "A)",
        "D",
        "A B",
        "A * * B",
        "A ^ B",
        "AB",
        "sum(A)",
        "(" * 60 + "A",
        "1e5",
        "A" * 1001,
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_formula(text, 3, "formula")


@bounded
@given(st.text(alphabet="ABC0123456789.+-*/%() ", max_size=60))
def test_any_text_is_computed_or_refused(text: str) -> None:
    try:
        formula = parse_formula(text, 3, "formula")
    except Invalid:
        return
    assert isinstance(formula([1, 2, 3]), int | float)
