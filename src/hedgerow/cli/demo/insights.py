"""The insights, the dashboards and the alerts of the demo, as bodies of requests to the API."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Body = dict[str, Any]

MONTH: Mapping[str, Any] = {"date_from": "-30d"}
DASHBOARDS: Mapping[str, str] = {
    "product": "How studios use Fernleaf",
    "revenue": "Money that moves through Fernleaf",
}
TILE_WIDTH, TILE_HEIGHT = 6, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedQuery:
    """An insight on one of the dashboards."""

    name: str
    description: str
    dashboard: str
    query: Body


def _event(name: str, **fields: Any) -> Body:
    return {"kind": "EventsNode", "event": name, "name": name, **fields}


def _trends(series: Sequence[Body], **fields: Any) -> Body:
    return {
        "kind": "TrendsQuery",
        "dateRange": MONTH,
        "interval": "day",
        "series": series,
        **fields,
    }


def build_insights(paid_action: int) -> Sequence[SavedQuery]:
    """The first one is the insight of both alerts."""
    return (
        SavedQuery(
            name="Active people per day",
            description="Everyone who opened the dashboard, with the rhythm of the week.",
            dashboard="product",
            query=_trends([_event("$pageview", math="dau")]),
        ),
        SavedQuery(
            name="From visit to payment",
            description="Where people stop on their way to the first paid invoice.",
            dashboard="product",
            query={
                "kind": "FunnelsQuery",
                "dateRange": MONTH,
                "series": [
                    _event("$pageview"),
                    _event("signed up"),
                    _event("created invoice"),
                    _event("sent invoice"),
                    _event("invoice paid"),
                ],
            },
        ),
        SavedQuery(
            name="Who comes back",
            description="People who signed up, and the weeks in which they created an invoice.",
            dashboard="product",
            query={
                "kind": "RetentionQuery",
                "retentionFilter": {
                    "period": "Week",
                    "totalIntervals": 6,
                    "retentionType": "retention_first_time",
                    "targetEntity": {"id": "signed up", "type": "events"},
                    "returningEntity": {"id": "created invoice", "type": "events"},
                },
            },
        ),
        SavedQuery(
            name="Ways through the app",
            description="The pages that people open one after the other.",
            dashboard="product",
            query={
                "kind": "PathsQuery",
                "dateRange": {"date_from": "-7d"},
                "pathsFilter": {"includeEventTypes": ["$pageview"]},
            },
        ),
        SavedQuery(
            name="Paid amounts by currency",
            description="The sum of all paid invoices.",
            dashboard="revenue",
            query=_trends(
                [_event("invoice paid", math="sum", math_property="amount")],
                breakdownFilter={"breakdown": "currency", "breakdown_type": "event"},
                trendsFilter={"display": "ActionsBar"},
            ),
        ),
        SavedQuery(
            name="Invoices sent and paid",
            description="Payments follow a few days later.",
            dashboard="revenue",
            query=_trends(
                [_event("sent invoice"), {"kind": "ActionsNode", "id": paid_action}],
            ),
        ),
        SavedQuery(
            name="Invoices this month",
            description="One number.",
            dashboard="revenue",
            query=_trends([_event("sent invoice")], trendsFilter={"display": "BoldNumber"}),
        ),
        SavedQuery(
            name="Upgrades by plan",
            description="Which plan studios move to.",
            dashboard="revenue",
            query=_trends(
                [_event("upgraded plan")],
                interval="week",
                breakdownFilter={"breakdown": "plan", "breakdown_type": "event"},
            ),
        ),
    )


def build_dashboard(key: str, name: str, insights: Sequence[int]) -> Body:
    """A text, and the insights in two columns."""
    tiles: list[Body] = [{"text": {"body": DASHBOARDS[key]}, "layouts": _place(0, 0, 12, 1)}]
    for number, id in enumerate(insights):
        x, y = number % 2 * TILE_WIDTH, 1 + number // 2 * TILE_HEIGHT
        tiles.append({"insight": {"id": id}, "layouts": _place(x, y, TILE_WIDTH, TILE_HEIGHT)})
    return {
        "name": name,
        "description": DASHBOARDS[key],
        "pinned": key == "product",
        "tiles": tiles,
    }


def _place(x: int, y: int, width: int, height: int) -> Body:
    return {"sm": {"x": x, "y": y, "w": width, "h": height}}


def build_alerts(insight: int, destination: int) -> Sequence[Body]:
    """One that is quiet, and one that fires."""
    common = {"insight": insight, "destinations": [destination], "calculation_interval": "daily"}
    return (
        {
            **common,
            "name": "No one is there",
            "condition": {"type": "absolute_value"},
            "threshold": {"configuration": {"type": "absolute", "bounds": {"lower": 1}}},
        },
        {
            **common,
            "name": "More people than usual",
            "condition": {"type": "absolute_value"},
            "threshold": {"configuration": {"type": "absolute", "bounds": {"upper": 10}}},
        },
    )
