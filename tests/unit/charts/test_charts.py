"""Pictures of results: what they show, and that no result can break them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from struct import unpack
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from hedgerow.charts.draw import draw_chart
from hedgerow.charts.from_results import build_chart, unwrap_query
from hedgerow.charts.model import MAX_POINTS, MAX_SERIES
from hedgerow.charts.numbers import choose_ticks, format_duration, format_number, format_short
from hedgerow.charts.render import render_png
from hedgerow.charts.svg import MAX_HEIGHT, WIDTH, fit_text, measure

NOW = datetime(2026, 3, 31, 22, 30, tzinfo=UTC)
PERIOD = {"date_from": "2026-02-28T23:00:00.000000Z", "date_to": "2026-03-31T21:59:59.999999Z"}
TRENDS = {"kind": "TrendsQuery", "interval": "day"}
SVG = "{http://www.w3.org/2000/svg}"


def draw(query: Mapping[str, Any], results: Any, title: str = "Visits", **fields: Any) -> str:
    response = {"results": results, "resolved_date_range": PERIOD, **fields}
    return draw_chart(build_chart(title, query, response, "Europe/Berlin", NOW))


def texts(svg: str) -> list[str]:
    return [each.text or "" for each in ET.fromstring(svg).iter(f"{SVG}text")]


def series(label: str, *data: float, **fields: Any) -> dict[str, Any]:
    days = [f"2026-03-{number + 1:02}" for number in range(len(data))]
    return {"label": label, "data": list(data), "days": days, **fields}


def test_shows_title_period_axis_legend_and_time_in_the_zone_of_the_project() -> None:
    found = texts(draw(TRENDS, [series("$pageview", 1, 2500, 3)]))
    assert found[:2] == ["Visits", "1 Mar 2026 – 31 Mar 2026 · by day"]
    assert {"0", "1k", "2k", "3k", "1 Mar", "3 Mar", "$pageview"} <= set(found)
    assert found[-1] == "Computed 1 Apr 2026, 00:30 (Europe/Berlin)"


def test_draws_the_period_before_dashed_in_the_same_color() -> None:
    compared = [
        series("a", 1, 2, compare_label="current"),
        series("b", 3, 4, compare_label="current"),
        series("a", 5, 6, compare_label="previous"),
        series("b", 7, 8, compare_label="previous"),
    ]
    svg = ET.fromstring(draw(TRENDS, compared))
    lines = list(svg.iter(f"{SVG}polyline"))[:4]
    dashed = [line.get("stroke") for line in lines if line.get("stroke-dasharray")]
    solid = [line.get("stroke") for line in lines if not line.get("stroke-dasharray")]
    assert dashed == solid
    assert len(set(solid)) == 2


@pytest.mark.parametrize(
    ("query", "results", "expected"),
    [
        (
            TRENDS | {"trendsFilter": {"display": "BoldNumber"}},
            [
                {"aggregated_value": 150, "compare_label": "current"},
                {"aggregated_value": 100, "compare_label": "previous"},
            ],
            {"150", "+50% from 100", "1 Mar 2026 – 31 Mar 2026"},
        ),
        (
            TRENDS | {"trendsFilter": {"display": "ActionsBarValue"}},
            [{"label": "DE", "aggregated_value": 2}, {"label": "FR", "aggregated_value": 3.25}],
            {"DE", "2", "FR", "3.25"},
        ),
        (
            TRENDS | {"trendsFilter": {"display": "ActionsBar"}},
            [series("a", 1, 2), series("b", 3, 4)],
            {"a", "b", "6"},
        ),
        (
            {"kind": "FunnelsQuery"},
            [
                {"name": "visit", "count": 200},
                {"name": "buy", "custom_name": "Bought", "count": 50, "median_conversion_time": 75},
            ],
            {"visit", "200 (100%)", "Bought", "50 (25%)", "median time 1 min 15 s"},
        ),
        (
            {"kind": "FunnelsQuery"},
            [[{"name": "visit", "count": 4, "breakdown_value": ["DE"]}, {"name": "b", "count": 1}]],
            {"DE", "1. visit", "4 (100%)", "1 (25%)"},
        ),
        (
            {"kind": "FunnelsQuery", "funnelsFilter": {"funnelVizType": "trends"}},
            [{"data": [50.0, 25.0], "days": ["2026-03-01", "2026-03-02"]}],
            {"Conversion", "60%", "1 Mar"},
        ),
        (
            {"kind": "FunnelsQuery", "funnelsFilter": {"funnelVizType": "time_to_convert"}},
            {"bins": [[0, 3], [3600, 1]], "average_conversion_time": 5.0},
            {"from 0 s", "from 1 h", "3", "1"},
        ),
        (
            {"kind": "RetentionQuery"},
            [
                {
                    "date": "2026-03-01T00:00:00+01:00",
                    "label": "Day 0",
                    "values": [{"count": 8, "label": "Day 0"}, {"count": 2, "label": "Day 1"}],
                },
                {
                    "date": "2026-03-02T00:00:00+01:00",
                    "label": "Day 1",
                    "values": [{"count": 3, "label": "Day 0"}, {"count": 0, "label": "Day 1"}],
                },
            ],
            {"1 Mar 2026", "8", "Day 1", "100%", "25%"},
        ),
        (
            {"kind": "PathsQuery"},
            [{"source": "1_/home", "target": "2_/buy", "value": 7}],
            {"/home › /buy", "7"},
        ),
        (TRENDS, [], {"No data in this period"}),
        ({"kind": "HogQLQuery"}, [["x", None, 1.5]], {"a", "b", "c", "x", "1.5"}),
    ],
)
def test_draws_each_kind(query: Mapping[str, Any], results: Any, expected: set[str]) -> None:
    assert expected <= set(texts(draw(query, results, columns=["a", "b", "c"])))


def test_reads_the_query_inside_a_visualization_node() -> None:
    assert unwrap_query({"kind": "InsightVizNode", "source": TRENDS}) == TRENDS


HOSTILE = "</text><script>alert('1')</script> & \x00\x1b\u202e\ud800\n" + "long " * 200


def test_names_neither_add_markup_nor_leave_the_picture() -> None:
    svg = draw(TRENDS, [series(HOSTILE, 1, 2)], HOSTILE)
    assert not list(ET.fromstring(svg).iter(f"{SVG}script"))
    title = texts(svg)[0]
    assert title.startswith("</text><script>alert('1')</script> & long")
    assert title.endswith("…")
    assert measure(title, 20) <= WIDTH
    assert all(each.isprintable() for each in texts(svg))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300, -1e29, None, "7", True, []])
def test_values_that_have_no_place_count_as_zero_or_fit(value: Any) -> None:
    for display in ("ActionsLineGraph", "ActionsBar", "ActionsBarValue", "BoldNumber"):
        result = series("a", 1) | {"data": [1, value], "aggregated_value": value}
        svg = draw(TRENDS | {"trendsFilter": {"display": display}}, [result])
        assert "nan" not in svg
        assert "inf" not in svg


def test_many_series_points_and_rows_give_a_bounded_picture() -> None:
    many = [series(f"s{number}", *range(2)) for number in range(1000)]
    drawn = texts(draw(TRENDS, many))
    assert f"and {1000 - MAX_SERIES} more" in drawn
    days = [f"2026-03-01 00:{number % 60:02}:00" for number in range(100_000)]
    long = {"label": "a", "data": list(range(100_000)), "days": days}
    svg = ET.fromstring(draw(TRENDS, [long]))
    line = next(svg.iter(f"{SVG}polyline")).get("points", "")
    assert len(line.split()) <= MAX_POINTS
    table = draw({"kind": "HogQLQuery"}, [["x"] * 100] * 5000, columns=["c"] * 100)
    assert "and 4,975 more rows" in texts(table)
    steps = [{"name": f"step {number}", "count": 1} for number in range(500)]
    height = ET.fromstring(draw({"kind": "FunnelsQuery"}, steps)).get("height")
    assert float(height or 0) <= MAX_HEIGHT


def test_png_has_the_size_of_the_chart_and_its_text() -> None:
    response = {"results": [series("Größe, Ελλάδα, Москва", 1, 2)]}
    first, second = (
        render_png(build_chart(title, TRENDS, response, "UTC", NOW)) for title in ("a", "b")
    )
    assert first.startswith(b"\x89PNG\r\n\x1a\n")
    assert unpack(">I", first[16:20])[0] == 2 * WIDTH
    assert first != second


def test_text_is_cut_to_its_width() -> None:
    assert fit_text("short", 12, 100) == "short"
    cut = fit_text("W" * 100, 12, 100)
    assert cut.endswith("…")
    assert measure(cut, 12) <= 100
    assert measure("日本", 10) > measure("ab", 10)


def test_ticks_are_round_and_hold_zero_and_all_values() -> None:
    assert choose_ticks(0, 7) == [0, 2, 4, 6, 8]
    assert choose_ticks(-3, 5) == [-4, -2, 0, 2, 4, 6]
    assert choose_ticks(0, 0) == [0, 0.25, 0.5, 0.75, 1.0]
    assert choose_ticks(1800, 1890)[0] == 0


def test_numbers_and_durations() -> None:
    assert [format_number(each) for each in (0, -0.001, 1234.5, 1e20)] == [
        *("0", "0", "1,234.5", "1e+20")
    ]
    assert [format_short(each) for each in (0, 950, 1500, 2.5e6)] == ["0", "950", "1.5k", "2.5M"]
    assert [format_duration(each) for each in (0, 59.6, 3725, 90000)] == [
        *("0 s", "1 min", "1 h 2 min", "1 d 1 h")
    ]
