import math

import pytest

from hedgerow.cli.charts import ChartSeries, draw_bars, draw_lines

BRAILLE = range(0x2800, 0x2900)


def test_bars_are_as_long_as_their_values() -> None:
    series = [ChartSeries(name="n", values=[0, 5, 10, 0.001])]
    lines = list(draw_bars(["none", "half", "all", "bit"], series, 40))
    lengths = [line.count("█") for line in lines]
    assert lengths[2] == 2 * lengths[1] > 0
    assert lines[0] == "none   0"
    assert "▏" in lines[3]


def test_a_line_goes_from_the_first_to_the_last_value() -> None:
    lines = list(draw_lines(["a", "b"], [ChartSeries(name="n", values=[0, 8])], 40))
    assert lines[0].startswith("8 │")
    assert lines[9].startswith("0 │")
    rows = [line for line in lines if any(ord(each) in BRAILLE for each in line)]
    assert len(rows) == 10
    assert lines[-1].split() == ["a", "b"]


@pytest.mark.parametrize(
    "values", [[], [0, 0], [math.nan, 3], [-5, 5], [1e300, -1e300], [math.inf, 1], [7]]
)
def test_any_numbers_can_be_drawn(values: list[float]) -> None:
    labels = [f"{number}\x1b[31m" for number in range(len(values))] or ["x"]
    series = [ChartSeries(name="n\n", values=values or [math.nan])]
    text = "\n".join([*draw_lines(labels, series, 30), *draw_bars(labels, series, 30)])
    assert "\x1b" not in text
